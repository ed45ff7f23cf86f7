"""Checkpoints of a sandbox: create, list, restore, delete; and, by their own ids, publish."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.snapshot import (
    MAX_CHECKPOINTS,
    Retention,
    SnapshotKind,
    check_checkpoint_name,
)
from opencomputer.server.http import render
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.body import json_body
from opencomputer.server.services.sandboxes.checkpoints import NewCheckpoint
from opencomputer.wire.checkpoints import CheckpointView, CreateCheckpoint, RestoreView, RetentionPolicy
from opencomputer.wire.ids import SandboxId, SnapshotId

router = APIRouter(prefix="/sandboxes/{sandbox_id}/checkpoints")
by_checkpoint = APIRouter(prefix="/sandboxes/checkpoints/{checkpoint_id}")


@router.post("", status_code=201, response_model_exclude_none=True)
async def create(
    sandbox_id: str,
    caller: Key,
    services: ServicesOf,
    body: Annotated[CreateCheckpoint, Depends(json_body(CreateCheckpoint))],
) -> CheckpointView:
    new = new_checkpoint(body)
    return render.checkpoint(await services.checkpoints.create(caller.org_id, SandboxId(sandbox_id), new))


def new_checkpoint(body: CreateCheckpoint) -> NewCheckpoint:
    """What a body asks for. Raises InvalidInput where its fields do not go together."""
    check_checkpoint_name(body.name)
    kind = SnapshotKind(body.kind or SnapshotKind.FULL)
    if body.promote_to_full and kind is SnapshotKind.FULL:
        raise InvalidInput("promoteToFull is for disk_only checkpoints", field="promoteToFull")
    return NewCheckpoint(name=body.name, kind=kind, retention=_retention(kind, body.retention_policy))


def _retention(kind: SnapshotKind, policy: RetentionPolicy | None) -> Retention:
    if policy is None or policy.mode == "none":
        return Retention()
    limit = MAX_CHECKPOINTS[kind]
    maximum = policy.max_count or limit
    if maximum > limit:
        raise InvalidInput(
            f"retentionPolicy.maxCount must be at most {limit} for {kind} checkpoints",
            field="retentionPolicy.maxCount",
        )
    return Retention(maximum)


@router.get("", response_model_exclude_none=True)
async def list_checkpoints(sandbox_id: str, caller: Key, services: ServicesOf) -> list[CheckpointView]:
    found = await services.checkpoints.list(caller.org_id, SandboxId(sandbox_id))
    return [render.checkpoint(each) for each in found]


@router.delete("/{checkpoint_id}", status_code=204)
async def delete(sandbox_id: str, checkpoint_id: str, caller: Key, services: ServicesOf) -> Response:
    await services.checkpoints.delete(caller.org_id, SandboxId(sandbox_id), SnapshotId(checkpoint_id))
    return Response(status_code=204)


@router.post("/{checkpoint_id}/restore")
async def restore(sandbox_id: str, checkpoint_id: str, caller: Key, services: ServicesOf) -> RestoreView:
    await services.restores.restore(caller.org_id, SandboxId(sandbox_id), SnapshotId(checkpoint_id))
    return RestoreView(sandbox_id=sandbox_id, checkpoint_id=checkpoint_id)


@by_checkpoint.post("/publish", response_model_exclude_none=True)
async def publish(checkpoint_id: str, caller: Key, services: ServicesOf) -> CheckpointView:
    """Memory and files of a public checkpoint are everybody's."""
    found = await services.checkpoints.publish(caller.org_id, SnapshotId(checkpoint_id), public=True)
    return render.checkpoint(found)


@by_checkpoint.post("/unpublish", response_model_exclude_none=True)
async def unpublish(checkpoint_id: str, caller: Key, services: ServicesOf) -> CheckpointView:
    found = await services.checkpoints.publish(caller.org_id, SnapshotId(checkpoint_id), public=False)
    return render.checkpoint(found)
