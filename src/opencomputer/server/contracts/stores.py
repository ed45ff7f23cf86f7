"""What services need from storage. One small protocol per aggregate; every query names its organisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol, TypedDict

from opencomputer.server.contracts.driver import DriverRecord, MachineId
from opencomputer.server.domain.access import ApiKey, Organisation
from opencomputer.server.domain.layers import LayerId, MemoryId
from opencomputer.server.domain.lifecycle_webhooks import Webhook
from opencomputer.server.domain.sandbox import Elasticity, Sandbox, SandboxShape, SandboxState, StopReason
from opencomputer.server.domain.secrets import NOTHING_SEALED, Sealing
from opencomputer.server.domain.snapshot import Patch, SavedMemory, Snapshot, SnapshotPurpose, SnapshotState
from opencomputer.wire.ids import ApiKeyId, OrgId, PatchId, SandboxId, SnapshotId


class DatabaseUnusable(Exception):
    """The database is a newer program's, or damaged, or was not brought to this program's version."""


class OrganisationStore(Protocol):
    async def add(self, organisation: Organisation) -> None: ...

    async def get(self, org_id: OrgId) -> Organisation | None: ...

    async def count(self) -> int: ...

    async def first(self) -> Organisation | None:
        """The one that was there first: the platform's own."""
        ...


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


class SandboxFields(TypedDict, total=False):
    """What may change about a sandbox besides its state. What is not named stays."""

    layers: tuple[LayerId, ...]
    origin_layers: tuple[LayerId, ...]
    shape: SandboxShape
    timeout_seconds: int
    due_at: datetime | None
    generation: int
    hibernation: SnapshotId | None
    patch_position: int
    patch_error: str | None
    hibernate_failures: int
    last_hibernate_error: str | None
    recovered: int | None
    file_url_epoch: str | None
    preview_token_hash: str | None
    idempotency_key: None


class SandboxStore(Protocol):
    async def add(
        self,
        sandbox: Sandbox,
        sealing: Sealing = NOTHING_SEALED,
        *,
        concurrency_limit: int | None,
        webhooks: Sequence[Webhook] = (),
    ) -> None:
        """Insert a sandbox that counts from now on, with what it holds of secret stores and whom it tells.

        Raises ConcurrencyLimit, or Conflict when its idempotency key or id is taken; then nothing is written.
        """
        ...

    async def get(self, org_id: OrgId, sandbox_id: SandboxId) -> Sandbox | None: ...

    async def find(self, sandbox_id: SandboxId) -> Sandbox | None:
        """Of whatever organisation: for callers who prove in another way what they may do."""
        ...

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
        fields: SandboxFields | None = None,
        concurrency_limit: int | None = None,
    ) -> bool:
        """Compare-and-set the state, and `fields` with it. False when it was no longer `before`.

        What counts of the sandbox (`domain/metering.py`) follows at once, from the second of `at`, and what
        is told of it (`domain/lifecycle_events.py`) is written for all who listen. A sandbox that is not
        active has no machine. With a limit, raises ConcurrencyLimit when the sandbox
        would become active beyond it.
        """
        ...

    async def update(self, sandbox_id: SandboxId, fields: SandboxFields) -> bool:
        """Change what does not depend on the state. False: there is no such sandbox."""
        ...

    async def due(self, now: datetime, *, limit: int) -> Sequence[Sandbox]:
        """Running sandboxes of all organisations whose `due_at` has come, the longest overdue first."""
        ...

    async def rescale(
        self,
        sandbox_id: SandboxId,
        before: Elasticity,
        after: Elasticity,
        *,
        at: datetime,
        shape: SandboxShape | None = None,
    ) -> bool:
        """Compare-and-set what is settled about the size, and with it the size, which counts from `at` on
        and is told.

        False when it was no longer `before`, or the sandbox is stopped; with `shape`, when it does not run.
        """
        ...

    async def autoscaled(self) -> Sequence[Sandbox]:
        """Running sandboxes of all organisations that autoscale."""
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
    guest_token: str = field(repr=False)
    created_at: datetime
    record: DriverRecord | None = None
    sandbox_id: SandboxId | None = None
    layers: tuple[LayerId, ...] = ()
    """Kept layers that it stands on, above the template's, bottom first."""


class MachineStore(Protocol):
    async def add(self, row: MachineRow) -> None: ...

    async def ready(self, machine_id: MachineId, record: DriverRecord) -> None: ...

    async def claim(
        self,
        machine_id: MachineId,
        sandbox_id: SandboxId,
        guest_token: str,
        fields: SandboxFields | None = None,
    ) -> None:
        """Give a machine to an active sandbox, on both sides and in one transaction, with `fields` of the
        sandbox that are true of this machine. Raises Gone when it is not active; then nothing is changed."""
        ...

    async def stopping(self, machine_id: MachineId) -> None: ...

    async def remove(self, machine_id: MachineId) -> None: ...

    async def list(self) -> Sequence[MachineRow]: ...


@dataclass(frozen=True)
class Wanted:
    """Everything that some snapshot, some machine, or some sandbox that is not stopped is made of."""

    layers: frozenset[LayerId]
    memories: frozenset[MemoryId]
    template_hashes: frozenset[str] = frozenset()


class SnapshotStore(Protocol):
    async def add(self, snapshot: Snapshot, *, instead_of: Sequence[SnapshotId] = ()) -> None:
        """Insert a snapshot and remove others, in one transaction.

        Raises Conflict when a checkpoint of the sandbox, other than those removed and those that failed, has
        this name; then nothing is changed.
        """
        ...

    async def get(self, snapshot_id: SnapshotId) -> Snapshot | None:
        """Of any organisation: the caller checks whose it is, because public ones may be used by all."""
        ...

    async def checkpoints(self, org_id: OrgId, sandbox_id: SandboxId) -> Sequence[Snapshot]:
        """Newest first."""
        ...

    async def protected(self, sandbox_id: SandboxId) -> frozenset[SnapshotId]:
        """The sandbox's checkpoints with patches, or that a sandbox which is not stopped was made from."""
        ...

    async def ready(
        self,
        snapshot_id: SnapshotId,
        layers: tuple[LayerId, ...],
        memory: SavedMemory | None,
        *,
        size_bytes: int,
        at: datetime,
    ) -> bool:
        """From processing to ready; who listens is told of a checkpoint.

        False when it is not processing any more, or was removed."""
        ...

    async def fail(self, snapshot_id: SnapshotId, error: str, at: datetime) -> bool:
        """From processing to failed."""
        ...

    async def publish(self, snapshot_id: SnapshotId, public: bool) -> None: ...

    async def remove(self, snapshot_id: SnapshotId) -> bool:
        """Remove a snapshot and its patches. False when there is none."""
        ...

    async def in_state(
        self, state: SnapshotState, purpose: SnapshotPurpose | None = None
    ) -> Sequence[Snapshot]:
        """Of all organisations: for recovery."""
        ...

    async def wanted(self) -> Wanted: ...


class PatchStore(Protocol):
    async def add(self, patch: Patch) -> Patch:
        """Insert a patch; the answer has the sequence number it got (the one given is not looked at).

        Raises NotFound when the checkpoint is gone.
        """
        ...

    async def list(self, checkpoint_id: SnapshotId, *, after: int = 0) -> Sequence[Patch]:
        """Ascending, only those whose sequence is greater than `after`."""
        ...

    async def remove(self, checkpoint_id: SnapshotId, patch_id: PatchId) -> bool: ...
