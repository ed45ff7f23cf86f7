"""The binary frames of exec and agent sockets: one channel byte, then the payload.

Terminals do not use these frames: their sockets carry raw bytes. Text messages, and messages on a channel
that the reader does not know, are to be ignored, so that either end may learn new channels first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
EXIT: Final = 3
SCROLLBACK_END: Final = 4
STDIN_END: Final = 5
"""From the client: the program's standard input is at its end. Without it the input stays open."""

MAX_PAYLOAD_BYTES: Final = 64 * 1024
"""The largest payload either end sends in one frame; common WebSocket clients refuse messages above 1 MiB."""

UNKNOWN_EXIT_CODE: Final = -1
"""Stands for "no exit code is known"; a process that a signal killed reports 128 + the signal instead."""

_EXIT_CODE_BYTES: Final = 4


class Frame(NamedTuple):
    """One decoded message. The channel may be one that this version does not know."""

    channel: int
    payload: bytes


def encode(channel: int, payload: bytes = b"") -> bytes:
    """Return the message that carries `payload` on `channel`. The caller keeps to `MAX_PAYLOAD_BYTES`."""
    return bytes((channel,)) + payload


def encode_all(channel: int, data: bytes | memoryview) -> Iterator[bytes]:
    """Yield the messages that carry `data` in order, each within `MAX_PAYLOAD_BYTES`; none for no data."""
    view = memoryview(data)
    for start in range(0, len(view), MAX_PAYLOAD_BYTES):
        yield encode(channel, bytes(view[start : start + MAX_PAYLOAD_BYTES]))


def encode_exit(code: int) -> bytes:
    """Return the message that reports an exit code; always five bytes."""
    return encode(EXIT, code.to_bytes(_EXIT_CODE_BYTES, "big", signed=True))


def decode(message: bytes) -> Frame | None:
    """Split a binary message. An empty one (a keep-alive) is None and means nothing."""
    if not message:
        return None
    return Frame(message[0], message[1:])


def exit_code(payload: bytes) -> int:
    """Read the payload of an `EXIT` frame. One that is too short counts as 0, as all clients read it."""
    if len(payload) < _EXIT_CODE_BYTES:
        return 0
    return int.from_bytes(payload[:_EXIT_CODE_BYTES], "big", signed=True)
