"""`/api/snapshots`: images built ahead, under a name (sandbox-wire.md section 14)."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import JSONResponse, Response

from opencomputer.server.domain.builds import NamedSnapshot
from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.body import MAX_IMAGE_BODY_BYTES, json_body
from opencomputer.server.http.description import BUILD_STREAM
from opencomputer.server.http.sse import BuildStream, wants_stream
from opencomputer.server.services.sandboxes.build_log import Listener, nobody
from opencomputer.wire.images import CreateSnapshot, ImageView, PublishedView

_IN_BACKGROUND: dict[int | str, dict[str, Any]] = {
    202: {"model": ImageView, "description": "With `async`: it is being built."}
}
router = APIRouter(prefix="/snapshots")

_TRUE = frozenset({"1", "true", "yes"})


@router.post(
    "",
    status_code=201,
    response_model=ImageView,
    response_model_exclude_none=True,
    responses=BUILD_STREAM | _IN_BACKGROUND,
)
async def create(
    request: Request,
    caller: Key,
    services: ServicesOf,
    body: Annotated[CreateSnapshot, Depends(json_body(CreateSnapshot, MAX_IMAGE_BODY_BYTES))],
    in_background: Annotated[str, Query(alias="async")] = "",
) -> ImageView | Response:
    """Build and keep under a name: as a stream, in the background, or waiting until it is ready."""
    if body.image is None:
        raise InvalidInput("image: is missing", field="image")
    # Hashing and decoding megabytes must not keep others waiting.
    image = await asyncio.to_thread(services.images.prepare, body.image)
    row = await services.snapshots.begin(caller.org_id, body.name, image)

    async def build(log: Listener) -> ImageView:
        return view(await services.snapshots.follow(row, log))

    if wants_stream(request):
        return BuildStream(build)
    if in_background.lower() in _TRUE:
        return JSONResponse(view(row).model_dump(mode="json", by_alias=True, exclude_none=True), 202)
    return await build(nobody)


@router.get("", response_model_exclude_none=True)
async def list_snapshots(caller: Key, services: ServicesOf) -> list[ImageView]:
    return [view(row) for row in await services.snapshots.list(caller.org_id)]


@router.get("/{name}", response_model_exclude_none=True)
async def get(name: str, caller: Key, services: ServicesOf) -> ImageView:
    return view(await services.snapshots.get(caller.org_id, name))


@router.delete("/{name}", status_code=204)
async def delete(name: str, caller: Key, services: ServicesOf) -> Response:
    await services.snapshots.delete(caller.org_id, name)
    return Response(status_code=204)


@router.post("/{name}/publish")
async def publish(name: str, caller: Key, services: ServicesOf) -> PublishedView:
    row = await services.snapshots.publish(caller.org_id, name, public=True)
    return PublishedView(name=row.name, public=row.is_public)


@router.post("/{name}/unpublish")
async def unpublish(name: str, caller: Key, services: ServicesOf) -> PublishedView:
    row = await services.snapshots.publish(caller.org_id, name, public=False)
    return PublishedView(name=row.name, public=row.is_public)


def view(row: NamedSnapshot) -> ImageView:
    return ImageView(
        id=row.id,
        org_id=row.org_id,
        name=row.name,
        status=row.state,
        content_hash=row.content_hash,
        checkpoint_id=row.snapshot_id,
        manifest=json.loads(row.shown_manifest),
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        error=row.error,
        public=row.is_public or None,
    )
