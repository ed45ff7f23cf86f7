"""`…/scale`, `…/limits`, `…/autoscale` and `…/scaling-lock`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from opencomputer.server.http import render
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.body import json_body
from opencomputer.server.services.sandboxes.scaling import AutoscaleRequest, Size
from opencomputer.wire.ids import SandboxId
from opencomputer.wire.scaling import (
    AutoscaleView,
    Scale,
    ScaledView,
    ScalingLockView,
    SetAutoscale,
    SetScalingLock,
)

router = APIRouter(prefix="/sandboxes/{sandbox_id}")


@router.post("/scale")
@router.put("/limits")
async def scale(
    sandbox_id: str, caller: Key, services: ServicesOf, body: Annotated[Scale, Depends(json_body(Scale))]
) -> ScaledView:
    size = Size(body.memory_mb, body.cpu_percent)
    return render.scaled(await services.scaling.scale(caller.org_id, SandboxId(sandbox_id), size))


@router.get("/autoscale")
async def get_autoscale(sandbox_id: str, caller: Key, services: ServicesOf) -> AutoscaleView:
    found = await services.scaling.autoscale(caller.org_id, SandboxId(sandbox_id))
    return render.autoscale(sandbox_id, found)


@router.put("/autoscale")
async def set_autoscale(
    sandbox_id: str,
    caller: Key,
    services: ServicesOf,
    body: Annotated[SetAutoscale, Depends(json_body(SetAutoscale))],
) -> AutoscaleView:
    """Bounds that are left out stay; those never set are the present size and the largest one."""
    request = AutoscaleRequest(body.enabled, body.min_memory_mb, body.max_memory_mb)
    return render.autoscale(
        sandbox_id, await services.scaling.set_autoscale(caller.org_id, SandboxId(sandbox_id), request)
    )


@router.get("/scaling-lock")
async def get_scaling_lock(sandbox_id: str, caller: Key, services: ServicesOf) -> ScalingLockView:
    locked = await services.scaling.locked(caller.org_id, SandboxId(sandbox_id))
    return ScalingLockView(sandbox_id=sandbox_id, locked=locked)


@router.put("/scaling-lock")
async def set_scaling_lock(
    sandbox_id: str,
    caller: Key,
    services: ServicesOf,
    body: Annotated[SetScalingLock, Depends(json_body(SetScalingLock))],
) -> ScalingLockView:
    """Locking switches autoscaling off; unlocking does not switch it on."""
    locked = await services.scaling.set_lock(caller.org_id, SandboxId(sandbox_id), locked=body.locked)
    return ScalingLockView(sandbox_id=sandbox_id, locked=locked)
