"""The rest of the contract, answered honestly: 501 `not_supported`, for callers that are who they say."""

from __future__ import annotations

from fastapi import APIRouter, Request

from opencomputer.server.domain.errors import NotSupported
from opencomputer.server.http.auth import caller_of

router = APIRouter()

_SANDBOX = "/sandboxes/{sandbox_id}"
_PARTS: dict[str, tuple[str, ...]] = {
    "moving sandboxes between servers": (f"{_SANDBOX}/migrate",),
    "tags": ("/tags", f"{_SANDBOX}/tags"),
    "mounts": (f"{_SANDBOX}/mounts",),
    "logs": (f"{_SANDBOX}/logs",),
    "usage": ("/usage", f"{_SANDBOX}/usage"),
    "patches of snapshots": ("/snapshots/{name}/patches", "/snapshots/{name}/patches/{rest:path}"),
    "patches of images": ("/images/{name}/patches", "/images/{name}/patches/{rest:path}"),
    "webhooks": ("/webhooks", "/webhooks/{rest:path}"),
    "reserved capacity": ("/capacity", "/capacity/{rest:path}"),
    "identity tokens": ("/auth/token",),
    "operator views": ("/workers", "/sessions"),
}
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def _refuse(part: str) -> None:
    async def refuse(request: Request) -> None:
        await caller_of(request)
        raise NotSupported(f"{part}: not supported by this server yet")

    for path in _PARTS[part]:
        router.add_api_route(path, refuse, methods=_METHODS, include_in_schema=False)


for _part in _PARTS:
    _refuse(_part)
