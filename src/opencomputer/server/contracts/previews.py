"""What previews need from storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from opencomputer.server.contracts.stores import SandboxStore
from opencomputer.server.domain.lifecycle_events import LifecycleEvent
from opencomputer.server.domain.previews import Grant, Preview
from opencomputer.wire.ids import GrantId, OrgId, SandboxId


class PreviewStore(Protocol):
    async def add(self, preview: Preview, told: LifecycleEvent | None = None) -> Preview:
        """Insert a record, unless the port has one, and tell of it. Returns the one that it has now.

        Raises Gone when the sandbox has stopped."""
        ...

    async def get(self, sandbox_id: SandboxId, port: int) -> Preview | None: ...

    async def list(self, org_id: OrgId, sandbox_id: SandboxId) -> Sequence[Preview]:
        """By port."""
        ...

    async def remove(self, preview: Preview, told: LifecycleEvent | None = None) -> bool:
        """Remove a record, and tell of that. False: it is gone."""
        ...


class GrantStore(Protocol):
    async def add(self, grant: Grant, *, most: int) -> None:
        """Insert a grant, and forget those of its sandbox that had expired when it was made.

        Raises Conflict when its port has `most` already, and Gone when the sandbox has stopped."""
        ...

    async def by_hash(self, token_hash: str) -> Grant | None: ...

    async def list(self, org_id: OrgId, sandbox_id: SandboxId, port: int, now: datetime) -> Sequence[Grant]:
        """Those that have not expired, oldest first."""
        ...

    async def remove(self, org_id: OrgId, sandbox_id: SandboxId, port: int, grant_id: GrantId) -> bool: ...


@dataclass(frozen=True)
class PreviewStores:
    sandboxes: SandboxStore
    records: PreviewStore
    grants: GrantStore
