"""Records of previews, and the token that they ask for (behaviour sections 26.2 and 26.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.previews import PreviewStores
from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import Gone, InvalidInput, NotFound
from opencomputer.server.domain.lifecycle_events import preview_changed
from opencomputer.server.domain.previews import Preview, PreviewDomains, check_port
from opencomputer.server.domain.sandbox import TERMINAL, Sandbox, SandboxState, shown
from opencomputer.server.services.sandboxes.preview_visits import Visits
from opencomputer.wire.ids import OrgId, SandboxId


@dataclass(frozen=True)
class Registered:
    preview: Preview
    is_new: bool


@dataclass(frozen=True)
class WantedPreview:
    """`url`: where it can be seen, as the caller reaches this server."""

    port: int
    domain: str | None
    url: str


class Previews:
    def __init__(self, stores: PreviewStores, domains: PreviewDomains, visits: Visits, clock: Clock) -> None:
        self._stores = stores
        self._domains = domains
        self._visits = visits
        self._clock = clock

    async def register(self, org_id: OrgId, sandbox_id: SandboxId, wanted: WantedPreview) -> Registered:
        """Make a record of a port, or find the one there is. Raises NotFound, InvalidInput."""
        port, domain = check_port(wanted.port), wanted.domain
        sandbox = await self._own(org_id, sandbox_id)
        if shown(sandbox.state) is not SandboxState.RUNNING:
            raise InvalidInput("the sandbox is not running", status=shown(sandbox.state))
        if domain is not None and not self._domains.permits(domain, org_id):
            raise InvalidInput(
                "domain must be one that the server's operator has verified for your organisation",
                field="domain",
            )
        new = Preview(naming.new_preview_id(), sandbox_id, org_id, port, domain, self._clock.now())
        told = preview_changed(new, wanted.url, new.created_at)
        kept = await self._stores.records.add(new, told)
        return Registered(kept, kept.id == new.id)

    async def list(self, org_id: OrgId, sandbox_id: SandboxId) -> Sequence[Preview]:
        await self._own(org_id, sandbox_id)
        return await self._stores.records.list(org_id, sandbox_id)

    async def delete(self, org_id: OrgId, sandbox_id: SandboxId, port: int) -> None:
        """Remove a record. The port itself stays reachable under the server's own domain."""
        check_port(port)
        await self._own(org_id, sandbox_id)
        preview = await self._stores.records.get(sandbox_id, port)
        told = None if preview is None else preview_changed(preview, None, self._clock.now())
        if preview is None or not await self._stores.records.remove(preview, told):
            raise NotFound("this port has no preview URL on record")

    async def rotate(self, org_id: OrgId, sandbox_id: SandboxId) -> str:
        """A new token for all ports, told only here. The old one ends at once, with what was opened by it."""
        sandbox = await self._own(org_id, sandbox_id)
        if sandbox.state in TERMINAL:
            raise Gone
        token = naming.new_preview_token()
        await self._stores.sandboxes.update(sandbox_id, {"preview_token_hash": naming.secret_hash(token)})
        self._visits.end_without_grant(sandbox_id)
        return token

    async def _own(self, org_id: OrgId, sandbox_id: SandboxId) -> Sandbox:
        sandbox = await self._stores.sandboxes.get(org_id, sandbox_id)
        if sandbox is None or not sandbox.visible:
            raise NotFound("there is no such sandbox")
        return sandbox
