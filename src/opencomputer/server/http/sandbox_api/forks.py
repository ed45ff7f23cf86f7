"""New sandboxes that go on from where another one is or was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Request

from opencomputer.server.domain.limits import check_environment, check_metadata
from opencomputer.server.http import render
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.body import json_body
from opencomputer.server.services.facade import Services
from opencomputer.server.services.sandboxes.forks import Forked, ForkRequest
from opencomputer.wire.forks import ForkCheckpoint, ForkSandbox
from opencomputer.wire.ids import OrgId, SandboxId, SnapshotId
from opencomputer.wire.sandboxes import ForkedView

by_checkpoint = APIRouter(prefix="/sandboxes/from-checkpoint/{checkpoint_id}")
router = APIRouter(prefix="/sandboxes/{sandbox_id}/fork")


@by_checkpoint.post("", status_code=201, response_model_exclude_none=True)
async def from_checkpoint(
    request: Request,
    checkpoint_id: str,
    caller: Key,
    services: ServicesOf,
    body: Annotated[ForkCheckpoint, Depends(json_body(ForkCheckpoint))],
) -> ForkedView:
    asked = fork_request(body)
    made = await services.forks.from_checkpoint(caller.org_id, SnapshotId(checkpoint_id), asked)
    await _end_if_nobody_learns_of(request, services, caller.org_id, [made])
    return render.forked(request, services, made)


@router.post("", status_code=201, response_model_exclude_none=True)
async def fork(
    request: Request,
    sandbox_id: str,
    caller: Key,
    services: ServicesOf,
    body: Annotated[ForkSandbox, Depends(json_body(ForkSandbox))],
) -> list[ForkedView]:
    """All forks are of one instant, and the source goes on."""
    asked = fork_request(body)
    forks = await services.forks.fork(caller.org_id, SandboxId(sandbox_id), body.count or 1, asked)
    await _end_if_nobody_learns_of(request, services, caller.org_id, forks)
    return [render.forked(request, services, each) for each in forks]


def fork_request(body: ForkCheckpoint) -> ForkRequest:
    """What a body asks for. Raises InvalidInput."""
    check_environment(body.envs or {})
    check_metadata(body.metadata or {})
    return ForkRequest(
        timeout_seconds=body.timeout or 0,
        environment=body.envs or {},
        metadata=body.metadata or {},
        memory_mb=body.memory_mb,
        secret_store=body.secret_store or None,
    )


async def _end_if_nobody_learns_of(
    request: Request, services: Services, org_id: OrgId, forks: Sequence[Forked]
) -> None:
    if await request.is_disconnected():
        for each in forks:
            await services.lifecycle.kill(org_id, each.sandbox.id)
