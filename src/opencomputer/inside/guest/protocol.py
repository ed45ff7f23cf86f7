"""The language between the host and the guest: frames, their limits and the fields of their JSON.

One TCP connection carries everything. A frame is `u32 length | u8 type | u32 stream | payload`, big-endian,
where `length` counts the payload only. The host opens a stream by a REQUEST whose stream number it chooses
(never reused on one connection); the guest answers with one RESPONSE of the same number. Some requests
(attach, read_file, write_file, list_directory, dial) leave the stream open for DATA, OUTPUT and CREDIT until
the guest's END, or until the host's CANCEL.

Flow control: a sender may have at most the stream's window of unacknowledged bytes in flight. CREDIT carries
a running total (or, for OUTPUT, the offset read so far), so that repeating one does no harm. Each OUTPUT
frame weighs PIECE_WEIGHT more than its bytes, so that a window also bounds the number of frames.

Both ends import this module, so it knows neither of them.
"""

from __future__ import annotations

import json
import struct

VERSION = 1
PORT = 7000

HELLO = 1
"""First frame in each direction, on stream 0."""
REQUEST = 2
RESPONSE = 3
DATA = 4
"""Bytes of a file, of a listing, of a process's input, or of a connection to a program."""
OUTPUT = 5
"""`u8 channel | u64 offset | bytes`: a piece of a process's output."""
CREDIT = 6
"""`u64`: how far the receiver of the data has come."""
END = 7
"""The sender has no more to send. From the guest it carries a JSON result or error and ends the stream."""
CANCEL = 8
"""The host has lost interest in a stream. The guest answers END, unless it has sent it already."""

HEADER = struct.Struct(">IBI")
OUTPUT_PREFIX = struct.Struct(">BQ")
COUNT = struct.Struct(">Q")

MAX_PIECE = 256 * 1024
"""The most bytes of a file or of output in one frame."""
PIECE_WEIGHT = 128
MAX_DATA = MAX_PIECE + OUTPUT_PREFIX.size
MAX_CONTROL = 1024 * 1024
"""The most bytes of JSON in one frame, but for requests."""
MAX_REQUEST = 4 * 1024 * 1024
"""The kernel takes 2 MiB of arguments and environment; some characters are longer in JSON."""
MAX_HELLO = 256 * 1024
MOST_BYTES = 1 << 62
"""No number on the wire is larger."""

_LIMITS = {
    HELLO: MAX_HELLO,
    REQUEST: MAX_REQUEST,
    RESPONSE: MAX_CONTROL,
    DATA: MAX_DATA,
    OUTPUT: MAX_DATA,
    CREDIT: COUNT.size,
    END: MAX_CONTROL,
    CANCEL: 0,
}

INVALID = "invalid"
NOT_FOUND = "not_found"
CONFLICT = "conflict"
FAILED = "failed"
BUSY = "busy"
INTERRUPTED = "interrupted"
FILE_MISSING = "file_missing"
NOT_A_FILE = "not_a_file"
NOT_A_DIRECTORY = "not_a_directory"
FILE_CONFLICT = "file_conflict"
FILE_FORBIDDEN = "file_forbidden"
DISK_FULL = "disk_full"
REFUSED = "refused"
"""Nothing listens on the port."""
BROKEN = "broken"
"""The program broke its connection off."""
ERROR_CODES = frozenset(
    {
        INVALID,
        NOT_FOUND,
        CONFLICT,
        FAILED,
        BUSY,
        INTERRUPTED,
        FILE_MISSING,
        NOT_A_FILE,
        NOT_A_DIRECTORY,
        FILE_CONFLICT,
        FILE_FORBIDDEN,
        DISK_FULL,
        REFUSED,
        BROKEN,
    }
)

JsonObject = dict[str, object]


class ProtocolError(Exception):
    """The other end sent something that the protocol does not allow."""


class Frame:
    """One frame. `payload` is a copy of its own."""

    __slots__ = ("payload", "stream", "type")

    def __init__(self, type: int, stream: int, payload: bytes = b"") -> None:
        self.type = type
        self.stream = stream
        self.payload = payload

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Frame)
            and self.type == other.type
            and self.stream == other.stream
            and self.payload == other.payload
        )

    def __repr__(self) -> str:
        return f"Frame({self.type}, {self.stream}, {len(self.payload)} bytes)"


def header(type: int, stream: int, length: int) -> bytes:
    """The header of a frame with a payload of `length` bytes. Raises ProtocolError where it is too large."""
    if length > _LIMITS[type]:
        raise ProtocolError(f"a frame of type {type} cannot carry {length} bytes")
    return HEADER.pack(length, type, stream)


def encode(frame: Frame) -> bytes:
    return header(frame.type, frame.stream, len(frame.payload)) + frame.payload


class FrameDecoder:
    """Cuts a byte stream into frames. Holds at most one frame more than it was fed."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """The frames completed by `data`. Raises ProtocolError; the stream is then unusable."""
        buffer = self._buffer
        buffer += data
        frames: list[Frame] = []
        position = 0
        while len(buffer) - position >= HEADER.size:
            length, type, stream = HEADER.unpack_from(buffer, position)
            limit = _LIMITS.get(type)
            if limit is None:
                raise ProtocolError(f"unknown frame type {type}")
            if length > limit:
                raise ProtocolError(f"a frame of type {type} claims {length} bytes")
            end = position + HEADER.size + length
            if len(buffer) < end:
                break
            with memoryview(buffer) as view:
                frames.append(Frame(type, stream, bytes(view[position + HEADER.size : end])))
            position = end
        if position:
            del buffer[:position]
        return frames


def encode_json(value: JsonObject) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def decode_json(payload: bytes) -> JsonObject:
    """The object in `payload`. Raises ProtocolError for everything that is not one JSON object."""
    try:
        value: object = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("malformed JSON") from error
    return as_object(value)


def decode_count(payload: bytes) -> int:
    if len(payload) != COUNT.size:
        raise ProtocolError("malformed credit")
    return COUNT.unpack(payload)[0]


def decode_output(payload: bytes) -> tuple[int, int, bytes]:
    """Channel (1 or 2), offset and bytes of an OUTPUT frame."""
    if len(payload) <= OUTPUT_PREFIX.size:
        raise ProtocolError("malformed output")
    channel, offset = OUTPUT_PREFIX.unpack_from(payload)
    if channel not in (1, 2):
        raise ProtocolError("malformed output")
    return channel, offset, payload[OUTPUT_PREFIX.size :]


# Fields: each function reads one value of a JSON object and raises ProtocolError when it has another type.


def as_object(value: object) -> JsonObject:
    if not isinstance(value, dict):
        raise ProtocolError("expected a JSON object")
    return value  # pyright: ignore[reportUnknownVariableType]  # the keys of a JSON object are strings


def text(fields: JsonObject, key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str):
        raise ProtocolError(f"{key} must be a string")
    return value


def optional_text(fields: JsonObject, key: str) -> str | None:
    return None if fields.get(key) is None else text(fields, key)


def integer(fields: JsonObject, key: str, *, least: int = 0, most: int = MOST_BYTES) -> int:
    value = fields.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ProtocolError(f"{key} must be an integer from {least} to {most}")
    return value


def optional_integer(fields: JsonObject, key: str, *, least: int = 0, most: int = MOST_BYTES) -> int | None:
    return None if fields.get(key) is None else integer(fields, key, least=least, most=most)


def number(fields: JsonObject, key: str) -> float:
    value = fields.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not -1e18 < value < 1e18:
        raise ProtocolError(f"{key} must be a number")
    return float(value)


def optional_number(fields: JsonObject, key: str) -> float | None:
    return None if fields.get(key) is None else number(fields, key)


def flag(fields: JsonObject, key: str) -> bool:
    value = fields.get(key, False)
    if not isinstance(value, bool):
        raise ProtocolError(f"{key} must be true or false")
    return value


def items(fields: JsonObject, key: str) -> list[object]:
    value = fields.get(key)
    if not isinstance(value, list):
        raise ProtocolError(f"{key} must be a list")
    return value  # pyright: ignore[reportUnknownVariableType]  # each item is checked by its reader


def texts(fields: JsonObject, key: str) -> list[str]:
    values = items(fields, key)
    if not all(isinstance(value, str) for value in values):
        raise ProtocolError(f"{key} must be a list of strings")
    return values  # pyright: ignore[reportReturnType]  # checked one line above


def text_map(fields: JsonObject, key: str) -> dict[str, str]:
    value = as_object(fields.get(key, {}))
    if not all(isinstance(each, str) for each in value.values()):
        raise ProtocolError(f"{key} must map strings to strings")
    return value  # pyright: ignore[reportReturnType]  # checked one line above
