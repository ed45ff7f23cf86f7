"""Posting to an HTTP server, on asyncio streams: one connection a request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from .messages import MAX_HEAD_BYTES, Refused, content_length, parse_headers, read_head

MAX_ANSWER_BYTES = 32 << 20


class Unreachable(Exception):
    """There is no server, or no answer of it that can be read."""


async def post(url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Post a JSON document. Returns the status and the body of the answer, however long that takes.

    The connection is closed when the call is given up. Raises Unreachable.
    """
    try:
        return await _post(url, body, headers)
    except (OSError, Refused, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        raise Unreachable(str(error) or type(error).__name__) from error


async def _post(url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 80
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    own = {
        "host": parts.netloc,
        "connection": "close",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "content-length": str(len(body)),
    }
    lines = [f"{name}: {value}\r\n" for name, value in {**headers, **own}.items()]
    head = f"POST {target} HTTP/1.1\r\n{''.join(lines)}\r\n"
    reader, writer = await asyncio.open_connection(host, port, limit=2 * MAX_HEAD_BYTES)
    try:
        writer.write(head.encode("latin-1") + body)
        await writer.drain()
        answer = await read_head(reader)
        if answer is None:
            raise ConnectionResetError("the connection ended before there was an answer")
        status = int(answer[0].partition(" ")[2][:3])
        return status, await _read_body(reader, parse_headers(answer[1:]))
    finally:
        writer.close()
        with suppress(OSError, asyncio.CancelledError):
            await writer.wait_closed()


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return await _read_chunks(reader)
    length = content_length(headers)
    if length is not None and length <= MAX_ANSWER_BYTES:
        return await reader.readexactly(length)
    body = bytearray()
    while piece := await reader.read(1 << 16):
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise ValueError("the answer is too large")
    return bytes(body)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readuntil(b"\n")).split(b";")[0], 16):
        if len(body) + size > MAX_ANSWER_BYTES:
            raise ValueError("the answer is too large")
        body += await reader.readexactly(size)
        await reader.readuntil(b"\n")
    return bytes(body)
