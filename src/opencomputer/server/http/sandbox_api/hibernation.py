"""`…/hibernate` and `…/wake`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from opencomputer.server.http import render
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.body import json_body
from opencomputer.wire.ids import SandboxId
from opencomputer.wire.sandboxes import HibernatedView, SandboxView, Wake

router = APIRouter(prefix="/sandboxes/{sandbox_id}")


@router.post("/hibernate", response_model_exclude_none=True)
async def hibernate(sandbox_id: str, caller: Key, services: ServicesOf) -> HibernatedView:
    asleep = await services.hibernation.hibernate(caller.org_id, SandboxId(sandbox_id))
    return render.hibernated(asleep.sandbox, asleep.size_bytes)


@router.post("/wake", response_model_exclude_none=True)
async def wake(
    request: Request,
    sandbox_id: str,
    caller: Key,
    services: ServicesOf,
    body: Annotated[Wake, Depends(json_body(Wake))],
) -> SandboxView:
    """Without a timeout the sandbox keeps the one it had."""
    row = await services.hibernation.wake(caller.org_id, SandboxId(sandbox_id), timeout_seconds=body.timeout)
    return render.sandbox(request, services, row)
