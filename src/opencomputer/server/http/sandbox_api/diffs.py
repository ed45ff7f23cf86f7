"""`…/diff`: which files changed since a checkpoint, or since the sandbox was created."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from opencomputer.server.http import render
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.wire.diffs import DiffView
from opencomputer.wire.ids import SandboxId, SnapshotId

router = APIRouter(prefix="/sandboxes/{sandbox_id}/diff")


@router.get("")
async def diff(
    sandbox_id: str,
    caller: Key,
    services: ServicesOf,
    since: Annotated[str | None, Query(alias="from")] = None,
) -> DiffView:
    base = SnapshotId(since) if since else None
    changes = await services.diffs.diff(caller.org_id, SandboxId(sandbox_id), base)
    return DiffView(changes=[render.change(each) for each in changes])
