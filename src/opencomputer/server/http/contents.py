"""The contents of files in answers and requests: streamed, whole or in part."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack

from fastapi import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from opencomputer.server.domain.byte_ranges import ByteRange, parse_range
from opencomputer.server.domain.errors import RangeNotSatisfiable
from opencomputer.server.domain.machine import FileContent
from opencomputer.server.http.errors import render_error
from opencomputer.server.services.sandboxes.live import LiveSandbox


class _OwnedStream(StreamingResponse):
    """A streamed answer that owns what it reads from, also when the client never reads it."""

    def __init__(
        self, status: int, chunks: AsyncIterator[bytes], resources: AsyncExitStack, headers: dict[str, str]
    ) -> None:
        super().__init__(chunks, status, headers, media_type="application/octet-stream")
        self._resources = resources

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._resources:
            await super().__call__(scope, receive, send)


async def answer_with_file(
    request: Request, live: LiveSandbox, path: str, headers: Mapping[str, str] | None = None
) -> Response:
    """A file's content, or the part of it that the request wants; for HEAD only what would be said of it."""
    async with AsyncExitStack() as stack:
        try:
            content = await stack.enter_async_context(live.machine.files.read(path, _wanted_part(request)))
        except RangeNotSatisfiable as error:
            answer = render_error(error)
            answer.headers["Content-Range"] = f"bytes */{error.details['size']}"
            return answer
        said = {**_description(content), **(headers or {})}
        if request.method == "HEAD":
            return Response(headers=said, media_type="application/octet-stream")
        status = 200 if content.span is None else 206
        return _OwnedStream(status, content.chunks, stack.pop_all(), said)


def _wanted_part(request: Request) -> ByteRange | None:
    # A part is wanted only of the version that `If-Range` names. Versions have no names here, so that it is
    # always another one.
    if request.method != "GET" or "if-range" in request.headers:
        return None
    return parse_range(request.headers.get("range"))


def _description(content: FileContent) -> dict[str, str]:
    if content.size_bytes is None:
        return {}
    headers = {"Accept-Ranges": "bytes"}
    if content.span is None:
        return headers | {"Content-Length": str(content.size_bytes)}
    start, count = content.span.start, content.span.count
    return headers | {
        "Content-Length": str(count),
        "Content-Range": f"bytes {start}-{start + count - 1}/{content.size_bytes}",
    }


async def store_body(request: Request, live: LiveSandbox, path: str) -> Response:
    """Make the request's body the content of a file."""
    length = request.headers.get("content-length", "")
    await live.machine.files.write(
        path, request.stream(), size_hint=int(length) if length.isdigit() else None
    )
    return Response(status_code=204)
