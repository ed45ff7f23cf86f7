"""`…/allowed-hosts`: what a sandbox may reach (sandbox-wire.md section 2.10)."""

from __future__ import annotations

from fastapi import APIRouter

from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.wire.ids import SandboxId
from opencomputer.wire.secret_stores import AllowedHostsView

router = APIRouter(prefix="/sandboxes/{sandbox_id}")


@router.get("/allowed-hosts", response_model_exclude_none=True)
async def allowed_hosts(sandbox_id: str, caller: Key, services: ServicesOf) -> AllowedHostsView:
    """Neither wakes the sandbox nor counts as a use of it."""
    sandbox = await services.lifecycle.get(caller.org_id, SandboxId(sandbox_id))
    found = await services.egress.allowed_hosts(sandbox)
    return AllowedHostsView(
        sandbox_id=sandbox.id,
        secret_store=found.stores[-1] if found.stores else None,
        base_secret_store=found.stores[-2] if len(found.stores) > 1 else None,
        secret_stores=list(found.stores),
        egress_allowlist=list(found.allowlist),
        per_secret_allowed_hosts={name: list(hosts) for name, hosts in found.by_secret.items()},
        network_enabled=sandbox.network_enabled,
    )
