"""The guest's half of the words between sudo and PID 1; `sudo/messages.py` explains them."""

from __future__ import annotations

import struct

SOCKET = "/run/oc/sudo.sock"

LENGTH = struct.Struct(">I")
WORD = struct.Struct(">ci")
MOST_BYTES = 4 * 1024 * 1024

READY = b"R"
SIGNAL = b"K"
STARTED = b"P"
REFUSED = b"E"
EXITED = b"X"
KILLED = b"S"
STOPPED = b"T"

_FIXED_TEXTS = 6


class ElevationRequest:
    """A command to run as another user. `terminals` is a bit mask of the descriptors that are terminals."""

    def __init__(self, texts: list[str]) -> None:
        count = int(texts[5]) if len(texts) >= _FIXED_TEXTS else 0
        if count < 1 or len(texts) < _FIXED_TEXTS + count:
            raise ValueError("a request names a command")
        self.uid, self.gid, self.terminals = (int(text) for text in texts[:3])
        self.cwd, self.executable = texts[3:5]
        self.argv = texts[_FIXED_TEXTS : _FIXED_TEXTS + count]
        self.environment: dict[str, str] = {}
        for assignment in texts[_FIXED_TEXTS + count :]:
            name, equals, value = assignment.partition("=")
            if not name or not equals:
                raise ValueError("an environment consists of assignments")
            self.environment[name] = value


def decode_request(body: bytes) -> ElevationRequest:
    """Raises ValueError for anything but a request."""
    return ElevationRequest(body.decode("utf-8", "surrogateescape").split("\0"))
