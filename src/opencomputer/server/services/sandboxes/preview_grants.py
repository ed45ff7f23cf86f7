"""Grants: links that let whoever has them in to one port of one sandbox, for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.previews import PreviewStores
from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import Gone, NotFound
from opencomputer.server.domain.previews import Grant, check_port
from opencomputer.server.domain.sandbox import TERMINAL
from opencomputer.server.services.sandboxes.preview_visits import Visits
from opencomputer.wire.ids import GrantId, OrgId, SandboxId

MOST_GRANTS = 1000
"""That a port may have at a time."""


@dataclass(frozen=True)
class NewGrant:
    """A grant with its token, which is told only here."""

    record: Grant
    token: str = field(repr=False)


class PreviewGrants:
    def __init__(self, stores: PreviewStores, visits: Visits, clock: Clock) -> None:
        self._stores = stores
        self._visits = visits
        self._clock = clock

    async def add(self, org_id: OrgId, sandbox_id: SandboxId, port: int, ttl_seconds: int) -> NewGrant:
        """Let a visitor in to one port. Works whether or not the sandbox asks for a token, or sleeps.

        Raises NotFound, Gone, InvalidInput, Conflict."""
        check_port(port)
        await self._check_own(org_id, sandbox_id, stopped_too=False)
        token = naming.new_preview_token()
        now = self._clock.now()
        grant = Grant(
            id=naming.new_grant_id(),
            sandbox_id=sandbox_id,
            org_id=org_id,
            port=port,
            token_hash=naming.secret_hash(token),
            created_at=now,
            expires_at=now + timedelta(seconds=ttl_seconds),
        )
        await self._stores.grants.add(grant, most=MOST_GRANTS)
        return NewGrant(grant, token)

    async def list(self, org_id: OrgId, sandbox_id: SandboxId, port: int) -> Sequence[Grant]:
        check_port(port)
        await self._check_own(org_id, sandbox_id, stopped_too=True)
        return await self._stores.grants.list(org_id, sandbox_id, port, self._clock.now())

    async def revoke(self, org_id: OrgId, sandbox_id: SandboxId, port: int, grant_id: GrantId) -> None:
        """Take a grant back, and end what was opened by it. Raises NotFound."""
        check_port(port)
        if not await self._stores.grants.remove(org_id, sandbox_id, port, grant_id):
            raise NotFound("this port has no such grant")
        self._visits.end_by_grant(sandbox_id, grant_id)

    async def _check_own(self, org_id: OrgId, sandbox_id: SandboxId, *, stopped_too: bool) -> None:
        sandbox = await self._stores.sandboxes.get(org_id, sandbox_id)
        if sandbox is None or not sandbox.visible:
            raise NotFound("there is no such sandbox")
        if sandbox.state in TERMINAL and not stopped_too:
            raise Gone
