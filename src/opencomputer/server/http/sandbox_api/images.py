"""`/api/images`: what has been built and is kept (sandbox-wire.md section 13.3), and building ahead."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from opencomputer.server.domain.builds import ImageRow
from opencomputer.server.domain.errors import InvalidInput, NotFound
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.body import MAX_IMAGE_BODY_BYTES, json_body
from opencomputer.server.http.description import BUILD_STREAM
from opencomputer.server.http.sse import BuildStream, wants_stream
from opencomputer.server.services.sandboxes.build_log import Listener, nobody
from opencomputer.wire.images import BuildImage, ImageView

router = APIRouter(prefix="/images")


@router.get("", response_model_exclude_none=True)
async def list_images(caller: Key, services: ServicesOf) -> list[ImageView]:
    """Newest first."""
    return [view(row) for row in await services.images.list(caller.org_id)]


@router.post(
    "", status_code=201, response_model=ImageView, response_model_exclude_none=True, responses=BUILD_STREAM
)
async def build_image(
    request: Request,
    caller: Key,
    services: ServicesOf,
    body: Annotated[BuildImage, Depends(json_body(BuildImage, MAX_IMAGE_BODY_BYTES))],
) -> ImageView | Response:
    """Build without making a sandbox, so that the first one made from this image finds it ready."""
    if body.image is None:
        raise InvalidInput("image: is missing", field="image")
    # Hashing and decoding megabytes must not keep others waiting.
    image = await asyncio.to_thread(services.images.prepare, body.image)

    async def build(log: Listener) -> ImageView:
        await services.images.resolve(caller.org_id, image, log)
        row = await services.images.row(caller.org_id, image)
        if row is None:
            raise NotFound("the image was removed as soon as it was built")
        return view(row)

    return BuildStream(build) if wants_stream(request) else await build(nobody)


def view(row: ImageRow) -> ImageView:
    return ImageView(
        id=row.snapshot_id or row.key,
        org_id=row.org_id,
        status=row.state,
        content_hash=row.content_hash,
        checkpoint_id=row.snapshot_id,
        manifest=json.loads(row.shown_manifest),
        created_at=row.created_at,
        last_used_at=row.last_used_at,
    )
