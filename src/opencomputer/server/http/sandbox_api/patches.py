"""`/sandboxes/checkpoints/{checkpoint_id}/patches`: scripts that sandboxes of a checkpoint run once."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from opencomputer.server.http import render
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.body import json_body
from opencomputer.wire.ids import PatchId, SnapshotId
from opencomputer.wire.patches import CreatePatch, PatchAdded, PatchView

router = APIRouter(prefix="/sandboxes/checkpoints/{checkpoint_id}/patches")


@router.post("", status_code=201, response_model_exclude_none=True)
async def create(
    checkpoint_id: str,
    caller: Key,
    services: ServicesOf,
    body: Annotated[CreatePatch, Depends(json_body(CreatePatch))],
) -> PatchAdded:
    added = await services.patches.add(
        caller.org_id, SnapshotId(checkpoint_id), body.script, body.description
    )
    return PatchAdded(patch=render.patch(added))


@router.get("", response_model_exclude_none=True)
async def list_patches(checkpoint_id: str, caller: Key, services: ServicesOf) -> list[PatchView]:
    found = await services.patches.list(caller.org_id, SnapshotId(checkpoint_id))
    return [render.patch(each) for each in found]


@router.delete("/{patch_id}", status_code=204)
async def delete(checkpoint_id: str, patch_id: str, caller: Key, services: ServicesOf) -> Response:
    await services.patches.delete(caller.org_id, SnapshotId(checkpoint_id), PatchId(patch_id))
    return Response(status_code=204)
