"""New sandboxes that go on from where another one is or was."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Request

from opencomputer.server.domain.limits import check_environment, check_metadata
from opencomputer.server.http import render
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.body import json_body
from opencomputer.server.http.sandbox_api.sandboxes import idempotency_key
from opencomputer.server.services.facade import Services
from opencomputer.server.services.sandboxes.forks import Forked, ForkRequest
from opencomputer.wire.forks import ForkCheckpoint, ForkSandbox
from opencomputer.wire.ids import OrgId, SandboxId, SnapshotId
from opencomputer.wire.sandboxes import ForkedView

by_checkpoint = APIRouter(prefix="/sandboxes/from-checkpoint/{checkpoint_id}")
router = APIRouter(prefix="/sandboxes/{sandbox_id}/fork")


@dataclass(frozen=True)
class _Asked:
    """What is asked for; with `key`, once."""

    forks: ForkRequest
    count: int
    key: str | None


def _asked(
    request: Request, caller: Key, services: ServicesOf, body: ForkCheckpoint, key: str | None
) -> _Asked:
    """Raises InvalidInput."""
    forks, count = fork_request(body), 1
    if isinstance(body, ForkSandbox):
        count = body.count or 1
    if key is not None:
        words = f"{request.url.path}\n{body.model_dump_json()}".encode()
        forks = replace(
            forks,
            idempotency_key=key,
            request_hash=hashlib.sha256(words).hexdigest(),
            preview_token_of=partial(services.access.derived_token, "preview", caller.org_id),
        )
    return _Asked(forks, count, key)


def _of_checkpoint(
    request: Request,
    caller: Key,
    services: ServicesOf,
    body: Annotated[ForkCheckpoint, Depends(json_body(ForkCheckpoint))],
    key: Annotated[str | None, Depends(idempotency_key)],
) -> _Asked:
    return _asked(request, caller, services, body, key)


def _of_sandbox(
    request: Request,
    caller: Key,
    services: ServicesOf,
    body: Annotated[ForkSandbox, Depends(json_body(ForkSandbox))],
    key: Annotated[str | None, Depends(idempotency_key)],
) -> _Asked:
    return _asked(request, caller, services, body, key)


@by_checkpoint.post("", status_code=201, response_model_exclude_none=True)
async def from_checkpoint(
    request: Request,
    checkpoint_id: str,
    caller: Key,
    services: ServicesOf,
    wanted: Annotated[_Asked, Depends(_of_checkpoint)],
) -> ForkedView:
    made = await services.forks.from_checkpoint(caller.org_id, SnapshotId(checkpoint_id), wanted.forks)
    if wanted.key is None:
        await _end_if_nobody_learns_of(request, services, caller.org_id, [made])
    return render.forked(request, services, made)


@router.post("", status_code=201, response_model_exclude_none=True)
async def fork(
    request: Request,
    sandbox_id: str,
    caller: Key,
    services: ServicesOf,
    wanted: Annotated[_Asked, Depends(_of_sandbox)],
) -> list[ForkedView]:
    """All forks are of one instant, and the source goes on."""
    forks = await services.forks.fork(caller.org_id, SandboxId(sandbox_id), wanted.count, wanted.forks)
    if wanted.key is None:
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
