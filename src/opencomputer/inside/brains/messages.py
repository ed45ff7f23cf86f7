"""HTTP/1.1 on asyncio streams, as little as a brain needs: one request a connection, bodies of known size."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass

MAX_HEAD_BYTES = 32 << 10
MAX_BODY_BYTES = 32 << 20

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    411: "Length Required",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    503: "Service Unavailable",
}


class Refused(Exception):
    """The request is not served."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


async def read_request(reader: asyncio.StreamReader, max_body: int = MAX_BODY_BYTES) -> Request | None:
    """The request of this connection; None when there is none. Raises Refused."""
    lines = await read_head(reader)
    if lines is None:
        return None
    parts = lines[0].split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise Refused(400, "this is not an HTTP/1.1 request")
    headers = parse_headers(lines[1:])
    if "transfer-encoding" in headers:
        raise Refused(411, "the body needs a Content-Length")
    length = content_length(headers) or 0
    if length > max_body:
        raise Refused(413, f"the body may have {max_body} bytes at most")
    if headers.get("expect", "").lower() == "100-continue":
        raise Refused(400, "Expect is not supported")
    try:
        body = await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        return None
    return Request(parts[0], parts[1], headers, body)


async def read_head(reader: asyncio.StreamReader) -> list[str] | None:
    """The lines of a message's head; None when the connection ended before. Raises Refused."""
    lines: list[str] = []
    size = 0
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return None
        except asyncio.LimitOverrunError:
            raise Refused(431, "the head of the request is too large") from None
        size += len(line)
        if size > MAX_HEAD_BYTES:
            raise Refused(431, "the head of the request is too large")
        text = line.decode("latin-1").rstrip("\r\n")
        if text:
            lines.append(text)
        elif lines:
            return lines


def parse_headers(lines: list[str]) -> dict[str, str]:
    """Header lines by name. Raises Refused."""
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise Refused(400, "a header line is not valid")
        headers[name.lower()] = value.strip()
    return headers


def content_length(headers: Mapping[str, str]) -> int | None:
    """How long the body says it is. Raises Refused."""
    value = headers.get("content-length")
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= 12):
        raise Refused(400, "Content-Length must be a number")
    return int(value)


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """The head of an answer after which the connection ends."""
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in {**headers, "connection": "close"}.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def document(status: int, value: Mapping[str, object]) -> bytes:
    """A whole answer with a JSON document."""
    body = json.dumps(value).encode()
    return head(status, {"content-type": "application/json", "content-length": str(len(body))}) + body


def chunk(data: bytes) -> bytes:
    """One piece of a body whose length is not known beforehand; the empty one is the last."""
    return b"%x\r\n%s\r\n" % (len(data), data)
