"""`…/reboot` and `…/power-cycle`."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.wire.ids import SandboxId

router = APIRouter(prefix="/sandboxes/{sandbox_id}")


@router.post("/reboot", status_code=204)
async def reboot(sandbox_id: str, caller: Key, services: ServicesOf) -> Response:
    await services.power.reboot(caller.org_id, SandboxId(sandbox_id))
    return Response(status_code=204)


@router.post("/power-cycle", status_code=204)
async def power_cycle(sandbox_id: str, caller: Key, services: ServicesOf) -> Response:
    await services.power.power_cycle(caller.org_id, SandboxId(sandbox_id))
    return Response(status_code=204)
