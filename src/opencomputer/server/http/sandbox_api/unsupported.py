"""The rest of the contract, answered honestly: 501 `not_supported`, for callers that are who they say."""

from __future__ import annotations

from fastapi import APIRouter, Request

from opencomputer.server.domain.errors import NotSupported
from opencomputer.server.http.auth import caller_of

router = APIRouter()
optional = APIRouter(prefix="/v1")
"""Optional parts of a server, below its root."""

_SANDBOX = "/sandboxes/{sandbox_id}"
_PARTS: dict[str, tuple[str, ...]] = {
    "moving sandboxes between servers": (f"{_SANDBOX}/migrate",),
    "mounts": (f"{_SANDBOX}/mounts",),
    "patches of snapshots": ("/snapshots/{name}/patches", "/snapshots/{name}/patches/{rest:path}"),
    "patches of images": ("/images/{name}/patches", "/images/{name}/patches/{rest:path}"),
    "reserved capacity": ("/capacity", "/capacity/{rest:path}"),
    "identity tokens": ("/auth/token",),
    "operator views": ("/workers", "/sessions"),
}
_OPTIONAL: dict[str, tuple[str, ...]] = {
    "browsers": ("/browsers", "/browsers/{rest:path}", "/profiles", "/profiles/{rest:path}"),
    "hosted agents": ("/agents", "/agents/{rest:path}"),
}
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def _refuse(below: APIRouter, part: str, paths: tuple[str, ...]) -> None:
    async def refuse(request: Request) -> None:
        await caller_of(request)
        raise NotSupported(f"{part}: not supported by this server yet")

    for path in paths:
        below.add_api_route(path, refuse, methods=_METHODS, include_in_schema=False)


for _part, _paths in _PARTS.items():
    _refuse(router, _part, _paths)
for _part, _paths in _OPTIONAL.items():
    _refuse(optional, _part, _paths)
