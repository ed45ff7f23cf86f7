"""Stores in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from opencomputer.server.contracts.driver import DriverRecord, MachineId
from opencomputer.server.contracts.stores import MachineRow, MachineState, SandboxFields, Wanted
from opencomputer.server.domain.access import ApiKey, Organisation
from opencomputer.server.domain.errors import ConcurrencyLimit, Conflict, Gone
from opencomputer.server.domain.layers import LayerId
from opencomputer.server.domain.lifecycle_webhooks import Webhook
from opencomputer.server.domain.metering import Interval, MemorySample, counted, second_of, switch
from opencomputer.server.domain.sandbox import (
    ACTIVE,
    TERMINAL,
    Elasticity,
    Sandbox,
    SandboxShape,
    SandboxState,
    StopReason,
    check_transition,
)
from opencomputer.server.domain.secrets import NOTHING_SEALED, Sealing, Secret, SecretStore
from opencomputer.server.domain.snapshot import (
    Patch,
    SavedMemory,
    Snapshot,
    SnapshotPurpose,
    SnapshotState,
)
from opencomputer.wire.ids import (
    ApiKeyId,
    OrgId,
    PatchId,
    SandboxId,
    SecretId,
    SecretStoreId,
    SnapshotId,
)

Step = Callable[[str], Awaitable[None]]


async def _nothing(_step: str) -> None:
    return


@dataclass
class Tables:
    """What all stores of one database share.

    `deleted` says since when secret stores and secrets, by their ids, are. `before` is called ahead of each
    call of a store with its name, as "sandboxes.move", and may raise, wait, or do what interferes.
    """

    organisations: dict[OrgId, Organisation] = field(default_factory=dict[OrgId, Organisation])
    keys: dict[ApiKeyId, ApiKey] = field(default_factory=dict[ApiKeyId, ApiKey])
    sandboxes: dict[SandboxId, Sandbox] = field(default_factory=dict[SandboxId, Sandbox])
    machines: dict[MachineId, MachineRow] = field(default_factory=dict[MachineId, MachineRow])
    snapshots: dict[SnapshotId, Snapshot] = field(default_factory=dict[SnapshotId, Snapshot])
    patches: dict[PatchId, Patch] = field(default_factory=dict[PatchId, Patch])
    patches_ever: dict[SnapshotId, int] = field(default_factory=dict[SnapshotId, int])
    secret_stores: dict[SecretStoreId, SecretStore] = field(default_factory=dict[SecretStoreId, SecretStore])
    secrets: dict[SecretId, Secret] = field(default_factory=dict[SecretId, Secret])
    deleted: dict[str, datetime] = field(default_factory=dict[str, datetime])
    held: dict[SandboxId, Sealing] = field(default_factory=dict[SandboxId, Sealing])
    intervals: list[Interval] = field(default_factory=list[Interval])
    samples: list[MemorySample] = field(default_factory=list[MemorySample])
    noted: int | None = None
    before: Step = _nothing

    async def moment(self, step: str) -> None:
        """Others have their turn meanwhile, as they have while a database works."""
        await self.before(step)
        await asyncio.sleep(0)


class MemorySandboxes:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._rows = tables.sandboxes

    async def add(
        self,
        sandbox: Sandbox,
        sealing: Sealing = NOTHING_SEALED,
        *,
        concurrency_limit: int | None,
        webhooks: Sequence[Webhook] = (),
    ) -> None:
        await self._tables.moment("sandboxes.add")
        self._check_limit(sandbox.org_id, concurrency_limit)
        mine = [row for row in self._rows.values() if row.org_id == sandbox.org_id]
        key = sandbox.idempotency_key
        if sandbox.id in self._rows or (key is not None and any(row.idempotency_key == key for row in mine)):
            raise Conflict
        self._rows[sandbox.id] = sandbox
        self._tables.held[sandbox.id] = sealing

    async def get(self, org_id: OrgId, sandbox_id: SandboxId) -> Sandbox | None:
        await self._tables.moment("sandboxes.get")
        row = self._rows.get(sandbox_id)
        return row if row is not None and row.org_id == org_id else None

    async def find(self, sandbox_id: SandboxId) -> Sandbox | None:
        await self._tables.moment("sandboxes.find")
        return self._rows.get(sandbox_id)

    async def by_idempotency_key(self, org_id: OrgId, key: str) -> Sandbox | None:
        await self._tables.moment("sandboxes.by_idempotency_key")
        mine = (row for row in self._rows.values() if row.org_id == org_id)
        return next((row for row in mine if row.idempotency_key == key), None)

    async def list(
        self, org_id: OrgId, states: Sequence[SandboxState], *, limit: int, before: Sandbox | None = None
    ) -> Sequence[Sandbox]:
        await self._tables.moment("sandboxes.list")
        mine = [row for row in self._rows.values() if row.org_id == org_id and row.state in states]
        mine.sort(key=lambda row: (row.created_at, row.id), reverse=True)
        if before is not None:
            mine = [row for row in mine if (row.created_at, row.id) < (before.created_at, before.id)]
        return mine[:limit]

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
        await self._tables.moment("sandboxes.move")
        check_transition(before, after)
        row = self._rows.get(sandbox_id)
        if row is None or row.state is not before:
            return False
        if after in ACTIVE and before not in ACTIVE:
            self._check_limit(row.org_id, concurrency_limit)
        row = replace(row, state=after, **(fields or {}))
        if before is SandboxState.CREATING and after is SandboxState.RUNNING:
            row = replace(row, started_at=at)
        if after not in ACTIVE:
            row = replace(row, machine_id=None)
        if after in TERMINAL:
            key = None if after is SandboxState.FAILED else row.idempotency_key
            row = replace(row, stopped_at=at, stop_reason=reason, due_at=None, idempotency_key=key)
        self._rows[sandbox_id] = row
        self._keep_count(row, at)
        return True

    def _keep_count(self, row: Sandbox, at: datetime) -> None:
        ledger, second = self._tables.intervals, second_of(at)
        running = {each.meter: each for each in ledger if each.sandbox_id == row.id and each.end is None}
        change = switch(
            {meter: each.megabytes for meter, each in running.items()}, counted(row.state, row.shape)
        )
        for meter in change.ending:
            ended = running[meter]
            ledger[ledger.index(ended)] = replace(ended, end=max(second, ended.begin))
        for meter, megabytes in (change.beginning or {}).items():
            ledger.append(Interval(row.id, meter, megabytes, second))

    def _check_limit(self, org_id: OrgId, limit: int | None) -> None:
        active = sum(row.org_id == org_id and row.state in ACTIVE for row in self._rows.values())
        if limit is not None and active >= limit:
            raise ConcurrencyLimit(active=active, limit=limit)

    async def update(self, sandbox_id: SandboxId, fields: SandboxFields) -> bool:
        await self._tables.moment("sandboxes.update")
        row = self._rows.get(sandbox_id)
        if row is not None:
            self._rows[sandbox_id] = replace(row, **fields)
        return row is not None

    async def due(self, now: datetime, *, limit: int) -> Sequence[Sandbox]:
        await self._tables.moment("sandboxes.due")
        running = [row for row in self._rows.values() if row.state is SandboxState.RUNNING]
        overdue = [(row.due_at, row.id, row) for row in running if row.due_at and row.due_at <= now]
        return [row for *_, row in sorted(overdue, key=lambda each: each[:2])][:limit]

    async def rescale(
        self,
        sandbox_id: SandboxId,
        before: Elasticity,
        after: Elasticity,
        *,
        at: datetime,
        shape: SandboxShape | None = None,
    ) -> bool:
        await self._tables.moment("sandboxes.rescale")
        row = self._rows.get(sandbox_id)
        if row is None or row.state in TERMINAL or row.elasticity != before:
            return False
        if shape is not None and row.state is not SandboxState.RUNNING:
            return False
        row = replace(row, elasticity=after, shape=shape or row.shape)
        self._rows[sandbox_id] = row
        if shape is not None:
            self._keep_count(row, at)
        return True

    async def autoscaled(self) -> Sequence[Sandbox]:
        await self._tables.moment("sandboxes.autoscaled")
        running = [row for row in self._rows.values() if row.state is SandboxState.RUNNING]
        return [row for row in running if row.elasticity.autoscale]

    async def set_timeout(self, org_id: OrgId, sandbox_id: SandboxId, seconds: int) -> bool:
        await self._tables.moment("sandboxes.set_timeout")
        row = await self.get(org_id, sandbox_id)
        if row is not None:
            self._rows[sandbox_id] = replace(row, timeout_seconds=seconds)
        return row is not None

    async def in_states(self, states: Sequence[SandboxState]) -> Sequence[Sandbox]:
        await self._tables.moment("sandboxes.in_states")
        return [row for row in self._rows.values() if row.state in states]


class MemoryMachineRows:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._rows = tables.machines

    async def add(self, row: MachineRow) -> None:
        await self._tables.moment("machines.add")
        self._rows[row.id] = row

    async def ready(self, machine_id: MachineId, record: DriverRecord) -> None:
        await self._tables.moment("machines.ready")
        self._change(machine_id, state=MachineState.READY, record=record)

    async def claim(
        self,
        machine_id: MachineId,
        sandbox_id: SandboxId,
        guest_token: str,
        fields: SandboxFields | None = None,
    ) -> None:
        await self._tables.moment("machines.claim")
        sandbox = self._tables.sandboxes.get(sandbox_id)
        if sandbox is None or sandbox.state not in ACTIVE:
            raise Gone
        self._change(machine_id, state=MachineState.CLAIMED, sandbox_id=sandbox_id, guest_token=guest_token)
        self._tables.sandboxes[sandbox_id] = replace(sandbox, machine_id=machine_id, **(fields or {}))

    async def stopping(self, machine_id: MachineId) -> None:
        await self._tables.moment("machines.stopping")
        self._change(machine_id, state=MachineState.STOPPING)

    async def remove(self, machine_id: MachineId) -> None:
        await self._tables.moment("machines.remove")
        self._rows.pop(machine_id, None)

    async def list(self) -> Sequence[MachineRow]:
        await self._tables.moment("machines.list")
        return list(self._rows.values())

    def _change(self, machine_id: MachineId, **values: object) -> None:
        if machine_id in self._rows:
            self._rows[machine_id] = replace(self._rows[machine_id], **values)  # pyright: ignore[reportArgumentType] - names are fields


class MemorySnapshots:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._rows = tables.snapshots

    async def add(self, snapshot: Snapshot, *, instead_of: Sequence[SnapshotId] = ()) -> None:
        await self._tables.moment("snapshots.add")
        if snapshot.id in self._rows:
            raise Conflict
        others = [row for row in self._rows.values() if row.id not in instead_of]
        if _unique_name(snapshot) is not None and _unique_name(snapshot) in map(_unique_name, others):
            raise Conflict("another checkpoint of this sandbox has this name", field="name")
        for replaced in instead_of:
            self._remove(replaced)
        self._rows[snapshot.id] = snapshot

    async def get(self, snapshot_id: SnapshotId) -> Snapshot | None:
        await self._tables.moment("snapshots.get")
        return self._rows.get(snapshot_id)

    async def checkpoints(self, org_id: OrgId, sandbox_id: SandboxId) -> Sequence[Snapshot]:
        await self._tables.moment("snapshots.checkpoints")
        mine = [row for row in self._checkpoints(sandbox_id) if row.org_id == org_id]
        return sorted(mine, key=lambda row: (row.created_at, row.id), reverse=True)

    async def protected(self, sandbox_id: SandboxId) -> frozenset[SnapshotId]:
        await self._tables.moment("snapshots.protected")
        referred = {patch.checkpoint_id for patch in self._tables.patches.values()}
        for sandbox in self._tables.sandboxes.values():
            if sandbox.state not in TERMINAL:
                referred |= {each for each in (sandbox.from_checkpoint, sandbox.patch_source) if each}
        return frozenset(row.id for row in self._checkpoints(sandbox_id) if row.id in referred)

    def _checkpoints(self, sandbox_id: SandboxId) -> Sequence[Snapshot]:
        purpose = SnapshotPurpose.CHECKPOINT
        return [row for row in self._rows.values() if (row.sandbox_id, row.purpose) == (sandbox_id, purpose)]

    async def ready(
        self,
        snapshot_id: SnapshotId,
        layers: tuple[LayerId, ...],
        memory: SavedMemory | None,
        *,
        size_bytes: int,
        at: datetime,
    ) -> bool:
        await self._tables.moment("snapshots.ready")
        row = self._processing(snapshot_id)
        if row is not None:
            self._rows[snapshot_id] = replace(
                row,
                state=SnapshotState.READY,
                origin=replace(row.origin, layers=layers),
                memory=memory,
                size_bytes=size_bytes,
                ready_at=at,
            )
        return row is not None

    async def fail(self, snapshot_id: SnapshotId, error: str, at: datetime) -> bool:
        await self._tables.moment("snapshots.fail")
        row = self._processing(snapshot_id)
        if row is not None:
            self._rows[snapshot_id] = replace(row, state=SnapshotState.FAILED, error=error, failed_at=at)
        return row is not None

    def _processing(self, snapshot_id: SnapshotId) -> Snapshot | None:
        row = self._rows.get(snapshot_id)
        return row if row is not None and row.state is SnapshotState.PROCESSING else None

    async def publish(self, snapshot_id: SnapshotId, public: bool) -> None:
        await self._tables.moment("snapshots.publish")
        if snapshot_id in self._rows:
            self._rows[snapshot_id] = replace(self._rows[snapshot_id], is_public=public)

    async def remove(self, snapshot_id: SnapshotId) -> bool:
        await self._tables.moment("snapshots.remove")
        return self._remove(snapshot_id)

    def _remove(self, snapshot_id: SnapshotId) -> bool:
        patches = self._tables.patches
        for patch in [each for each in patches.values() if each.checkpoint_id == snapshot_id]:
            del patches[patch.id]
        return self._rows.pop(snapshot_id, None) is not None

    async def in_state(
        self, state: SnapshotState, purpose: SnapshotPurpose | None = None
    ) -> Sequence[Snapshot]:
        await self._tables.moment("snapshots.in_state")
        return [row for row in self._rows.values() if row.state is state and purpose in (None, row.purpose)]

    async def wanted(self) -> Wanted:
        await self._tables.moment("snapshots.wanted")
        snapshots = [row for row in self._rows.values() if row.state is not SnapshotState.FAILED]
        sandboxes = [row for row in self._tables.sandboxes.values() if row.state not in TERMINAL]
        machines = list(self._tables.machines.values())
        return Wanted(
            layers=frozenset[LayerId]().union(
                *(row.origin.layers for row in snapshots),
                *(row.layers + row.origin_layers for row in sandboxes),
                *(row.layers for row in machines),
            ),
            memories=frozenset(row.memory.id for row in snapshots if row.memory is not None),
            template_hashes=frozenset(
                row.template_hash for row in (*(each.origin for each in snapshots), *sandboxes, *machines)
            ),
        )


def _unique_name(snapshot: Snapshot) -> tuple[SandboxId | None, str] | None:
    if snapshot.purpose is not SnapshotPurpose.CHECKPOINT or snapshot.state is SnapshotState.FAILED:
        return None
    return snapshot.sandbox_id, snapshot.name
