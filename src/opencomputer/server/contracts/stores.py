"""What services need from storage. One small protocol per aggregate; every query names its organisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from opencomputer.server.contracts.driver import DriverRecord, MachineId
from opencomputer.server.domain.access import ApiKey, Organisation
from opencomputer.server.domain.sandbox import Sandbox, SandboxState, StopReason
from opencomputer.wire.ids import ApiKeyId, OrgId, SandboxId


class OrganisationStore(Protocol):
    async def add(self, organisation: Organisation) -> None: ...

    async def get(self, org_id: OrgId) -> Organisation | None: ...

    async def count(self) -> int: ...


class ApiKeyStore(Protocol):
    async def add(self, key: ApiKey) -> None: ...

    async def by_hash(self, key_hash: str) -> ApiKey | None:
        """The key with this hash, revoked ones included."""
        ...

    async def list(self, org_id: OrgId) -> Sequence[ApiKey]: ...

    async def revoke(self, org_id: OrgId, key_id: ApiKeyId, at: datetime) -> bool:
        """False when the organisation has no such key. Revoking twice keeps the first time."""
        ...

    async def used(self, key_id: ApiKeyId, at: datetime) -> None: ...


class SandboxStore(Protocol):
    async def add(self, sandbox: Sandbox, *, concurrency_limit: int | None) -> None:
        """Insert a sandbox that counts from now on.

        Raises ConcurrencyLimit, or Conflict when its idempotency key or id is taken; then nothing is written.
        """
        ...

    async def get(self, org_id: OrgId, sandbox_id: SandboxId) -> Sandbox | None: ...

    async def by_idempotency_key(self, org_id: OrgId, key: str) -> Sandbox | None: ...

    async def list(
        self, org_id: OrgId, states: Sequence[SandboxState], *, limit: int, before: Sandbox | None = None
    ) -> Sequence[Sandbox]:
        """Newest first; with `before`, those that come after it in that order."""
        ...

    async def move(
        self,
        sandbox_id: SandboxId,
        before: SandboxState,
        after: SandboxState,
        *,
        at: datetime,
        reason: StopReason | None = None,
    ) -> bool:
        """Compare-and-set the state. False when it was no longer `before`."""
        ...

    async def set_timeout(self, org_id: OrgId, sandbox_id: SandboxId, seconds: int) -> bool: ...

    async def in_states(self, states: Sequence[SandboxState]) -> Sequence[Sandbox]:
        """Of all organisations: for the reconciler only."""
        ...


class MachineState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    CLAIMED = "claimed"
    STOPPING = "stopping"


@dataclass(frozen=True)
class MachineRow:
    """What we want of a machine; written before anything is started."""

    id: MachineId
    state: MachineState
    template_hash: str
    image_version: str
    guest_token: str
    created_at: datetime
    record: DriverRecord | None = None
    sandbox_id: SandboxId | None = None


class MachineStore(Protocol):
    async def add(self, row: MachineRow) -> None: ...

    async def ready(self, machine_id: MachineId, record: DriverRecord) -> None: ...

    async def claim(self, machine_id: MachineId, sandbox_id: SandboxId, guest_token: str) -> None:
        """Give a ready machine to a sandbox, on both sides, in one transaction."""
        ...

    async def stopping(self, machine_id: MachineId) -> None: ...

    async def remove(self, machine_id: MachineId) -> None: ...

    async def list(self) -> Sequence[MachineRow]: ...
