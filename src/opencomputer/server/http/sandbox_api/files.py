"""`…/files`: bytes in and out, streamed, resolved inside the machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.http import render
from opencomputer.server.http.auth import Live
from opencomputer.wire.files import FileEntryView

router = APIRouter(prefix="/sandboxes/{sandbox_id}/files")


def path_of(request: Request) -> str:
    path = request.query_params.get("path", "")
    if not path or "\0" in path:
        raise InvalidInput("path is required and must not contain NUL", field="path")
    return path


PathOf = Annotated[str, Depends(path_of)]


class _OwnedStream(StreamingResponse):
    """A streamed answer that owns what it reads from, also when the client never reads it."""

    def __init__(
        self, chunks: AsyncIterator[bytes], resources: AsyncExitStack, headers: dict[str, str]
    ) -> None:
        super().__init__(chunks, media_type="application/octet-stream", headers=headers)
        self._resources = resources

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._resources:
            await super().__call__(scope, receive, send)


@router.get("", response_class=Response)
async def read(live: Live, path: PathOf) -> Response:
    async with AsyncExitStack() as stack:
        content = await stack.enter_async_context(live.machine.files.read(path))
        headers = {} if content.size_bytes is None else {"Content-Length": str(content.size_bytes)}
        return _OwnedStream(content.chunks, stack.pop_all(), headers)


@router.put("", status_code=204)
async def write(request: Request, live: Live, path: PathOf) -> Response:
    length = request.headers.get("content-length", "")
    await live.machine.files.write(
        path, request.stream(), size_hint=int(length) if length.isdigit() else None
    )
    return Response(status_code=204)


@router.delete("", status_code=204)
async def remove(live: Live, path: PathOf) -> Response:
    await live.machine.files.remove(path)
    return Response(status_code=204)


@router.get("/list")
async def list_directory(request: Request, live: Live) -> list[FileEntryView]:
    path = request.query_params.get("path") or "/"
    return [render.file_entry(entry) for entry in await live.machine.files.list(path)]


@router.post("/mkdir", status_code=204)
async def make_directory(live: Live, path: PathOf) -> Response:
    await live.machine.files.make_directory(path)
    return Response(status_code=204)
