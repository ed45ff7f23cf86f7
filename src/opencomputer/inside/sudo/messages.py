"""The client's half of the words between sudo and PID 1, over a UNIX socket.

The client sends one request, with its descriptors 0 to 2, and afterwards signals. The guest answers with what
happened. A request is `u32 length` and NUL-separated texts; everything else is `u8 kind | i32 number`. The
guest's half is `guest/elevation_messages.py`: the two packages do not see each other.
"""

from __future__ import annotations

import struct

SOCKET = "/run/oc/sudo.sock"

LENGTH = struct.Struct(">I")
WORD = struct.Struct(">ci")

READY = b"R"
"""The guest's first byte; what is sent before it does not count."""
SIGNAL = b"K"
"""Client to guest: send this signal to the command."""
STARTED = b"P"
"""The command runs; with a terminal, our side of it comes along."""
REFUSED = b"E"
"""The command cannot be started; `number` bytes of reason follow."""
EXITED = b"X"
KILLED = b"S"
STOPPED = b"T"


class Request:
    """`terminals` is a bit mask of the descriptors that are terminals, to be replaced by one of its own."""

    def __init__(self, uid: int, gid: int, terminals: int, cwd: str) -> None:
        self.uid = uid
        self.gid = gid
        self.terminals = terminals
        self.cwd = cwd

    def encode(self, executable: str, argv: list[str], environment: dict[str, str]) -> bytes:
        texts = [
            str(self.uid),
            str(self.gid),
            str(self.terminals),
            self.cwd,
            executable,
            str(len(argv)),
            *argv,
            *(f"{name}={value}" for name, value in environment.items()),
        ]
        body = "\0".join(texts).encode("utf-8", "surrogateescape")
        return LENGTH.pack(len(body)) + body
