"""`…/files`: bytes in and out, streamed, resolved inside the machine."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.http import render
from opencomputer.server.http.auth import Live
from opencomputer.server.http.contents import answer_with_file, store_body
from opencomputer.server.http.description import query, raw_body
from opencomputer.wire.files import FileEntryView

router = APIRouter(prefix="/sandboxes/{sandbox_id}/files")

_PATH = {"parameters": [query("path", "in the sandbox; relative ones start at home", required=True)]}
_FOLDER = {"parameters": [query("path", "in the sandbox", default="/")]}


def path_of(request: Request) -> str:
    path = request.query_params.get("path", "")
    if not path or "\0" in path:
        raise InvalidInput("path is required and must not contain NUL", field="path")
    return path


PathOf = Annotated[str, Depends(path_of)]


@router.get("", response_class=Response, openapi_extra=_PATH)
async def read(request: Request, live: Live, path: PathOf) -> Response:
    return await answer_with_file(request, live, path)


@router.put("", status_code=204, openapi_extra={**_PATH, **raw_body("application/octet-stream")})
async def write(request: Request, live: Live, path: PathOf) -> Response:
    return await store_body(request, live, path)


@router.delete("", status_code=204, openapi_extra=_PATH)
async def remove(live: Live, path: PathOf) -> Response:
    await live.machine.files.remove(path)
    return Response(status_code=204)


@router.get("/list", openapi_extra=_FOLDER)
async def list_directory(request: Request, live: Live) -> list[FileEntryView]:
    path = request.query_params.get("path") or "/"
    return [render.file_entry(entry) for entry in await live.machine.files.list(path)]


@router.post("/mkdir", status_code=204, openapi_extra=_PATH)
async def make_directory(live: Live, path: PathOf) -> Response:
    await live.machine.files.make_directory(path)
    return Response(status_code=204)
