"""File routes of the fake: a tree in memory."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response

if TYPE_CHECKING:
    from tests.support.fake_node.routes import Call

_HOME = PurePosixPath("/home/sandbox")


async def _read(call: Call) -> Response:
    path = _path(call)
    if path in call.sandbox.directories:
        return JSONResponse({"error": "The path is not a regular file.", "code": "not_a_file"}, 400)
    content = call.sandbox.files.get(path)
    if content is None:
        return JSONResponse({"error": "There is no such file or directory.", "code": "file_not_found"}, 404)
    return Response(content, media_type="application/octet-stream")


async def _write(call: Call) -> Response:
    path = _path(call)
    _make_directories(call, PurePosixPath(path).parent)
    call.sandbox.files[path] = call.raw
    return Response(status_code=204)


async def _remove(call: Call) -> Response:
    path = _path(call)
    sandbox = call.sandbox
    below = path.rstrip("/") + "/"
    sandbox.files = {p: c for p, c in sandbox.files.items() if p != path and not p.startswith(below)}
    sandbox.directories = {p for p in sandbox.directories if p != path and not p.startswith(below)}
    return Response(status_code=204)


async def _list(call: Call) -> Response:
    path = _path(call)
    sandbox = call.sandbox
    if path in sandbox.files:
        return JSONResponse({"error": "The path is not a directory.", "code": "not_a_directory"}, 400)
    if path not in sandbox.directories:
        return JSONResponse({"error": "There is no such file or directory.", "code": "file_not_found"}, 404)
    found: list[dict[str, object]] = []
    for entry in sorted([*sandbox.files, *sandbox.directories]):
        if entry != "/" and str(PurePosixPath(entry).parent) == path:
            is_directory = entry in sandbox.directories
            size = 0 if is_directory else len(sandbox.files[entry])
            name = PurePosixPath(entry).name
            found.append({"name": name, "isDir": is_directory, "size": size, "path": entry})
    return JSONResponse(found)


async def _make_directory(call: Call) -> Response:
    _make_directories(call, PurePosixPath(_path(call)))
    return Response(status_code=204)


def _make_directories(call: Call, path: PurePosixPath) -> None:
    call.sandbox.directories.update({str(path), *(str(parent) for parent in path.parents)})


def _path(call: Call) -> str:
    return str(_HOME / call.query["path"])


ROUTES = [
    ("GET", "/files", _read),
    ("PUT", "/files", _write),
    ("DELETE", "/files", _remove),
    ("GET", "/files/list", _list),
    ("POST", "/files/mkdir", _make_directory),
]
