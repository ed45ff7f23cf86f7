"""Stores in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from opencomputer.server.contracts.driver import DriverRecord, MachineId
from opencomputer.server.contracts.stores import MachineRow, MachineState
from opencomputer.server.domain.access import ApiKey, Organisation
from opencomputer.server.domain.errors import ConcurrencyLimit, Conflict
from opencomputer.server.domain.sandbox import Sandbox, SandboxState, StopReason, check_transition
from opencomputer.wire.ids import ApiKeyId, OrgId, SandboxId

_COUNTED = (SandboxState.CREATING, SandboxState.RUNNING)


async def _a_moment() -> None:
    """Others have their turn meanwhile, as they have while a database works."""
    await asyncio.sleep(0)


@dataclass
class Tables:
    """What all stores of one database share."""

    organisations: dict[OrgId, Organisation] = field(default_factory=dict[OrgId, Organisation])
    keys: dict[ApiKeyId, ApiKey] = field(default_factory=dict[ApiKeyId, ApiKey])
    sandboxes: dict[SandboxId, Sandbox] = field(default_factory=dict[SandboxId, Sandbox])
    machines: dict[MachineId, MachineRow] = field(default_factory=dict[MachineId, MachineRow])


class MemoryOrganisations:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.organisations

    async def add(self, organisation: Organisation) -> None:
        await _a_moment()
        self._rows[organisation.id] = organisation

    async def get(self, org_id: OrgId) -> Organisation | None:
        await _a_moment()
        return self._rows.get(org_id)

    async def count(self) -> int:
        await _a_moment()
        return len(self._rows)


class MemoryApiKeys:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.keys
        self.lookups = 0

    async def add(self, key: ApiKey) -> None:
        await _a_moment()
        self._rows[key.id] = key

    async def by_hash(self, key_hash: str) -> ApiKey | None:
        await _a_moment()
        self.lookups += 1
        return next((key for key in self._rows.values() if key.hash == key_hash), None)

    async def list(self, org_id: OrgId) -> Sequence[ApiKey]:
        await _a_moment()
        mine = [key for key in self._rows.values() if key.org_id == org_id]
        return sorted(mine, key=lambda key: key.created_at)

    async def revoke(self, org_id: OrgId, key_id: ApiKeyId, at: datetime) -> bool:
        await _a_moment()
        key = self._rows.get(key_id)
        if key is None or key.org_id != org_id:
            return False
        self._rows[key_id] = replace(key, revoked_at=key.revoked_at or at)
        return True

    async def used(self, key_id: ApiKeyId, at: datetime) -> None:
        await _a_moment()
        self._rows[key_id] = replace(self._rows[key_id], last_used_at=at)


class MemorySandboxes:
    def __init__(self, tables: Tables) -> None:
        self._rows = tables.sandboxes

    async def add(self, sandbox: Sandbox, *, concurrency_limit: int | None) -> None:
        await _a_moment()
        mine = [row for row in self._rows.values() if row.org_id == sandbox.org_id]
        active = sum(row.state in _COUNTED for row in mine)
        if concurrency_limit is not None and active >= concurrency_limit:
            raise ConcurrencyLimit(active=active, limit=concurrency_limit)
        key = sandbox.idempotency_key
        if sandbox.id in self._rows or (key is not None and any(row.idempotency_key == key for row in mine)):
            raise Conflict
        self._rows[sandbox.id] = sandbox

    async def get(self, org_id: OrgId, sandbox_id: SandboxId) -> Sandbox | None:
        await _a_moment()
        row = self._rows.get(sandbox_id)
        return row if row is not None and row.org_id == org_id else None

    async def by_idempotency_key(self, org_id: OrgId, key: str) -> Sandbox | None:
        await _a_moment()
        mine = (row for row in self._rows.values() if row.org_id == org_id)
        return next((row for row in mine if row.idempotency_key == key), None)

    async def list(
        self, org_id: OrgId, states: Sequence[SandboxState], *, limit: int, before: Sandbox | None = None
    ) -> Sequence[Sandbox]:
        await _a_moment()
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
    ) -> bool:
        await _a_moment()
        check_transition(before, after)
        row = self._rows.get(sandbox_id)
        if row is None or row.state is not before:
            return False
        if after is SandboxState.RUNNING:
            self._rows[sandbox_id] = replace(row, state=after, started_at=at)
            return True
        key = None if after is SandboxState.FAILED else row.idempotency_key
        self._rows[sandbox_id] = replace(
            row, state=after, stopped_at=at, stop_reason=reason, machine_id=None, idempotency_key=key
        )
        return True

    async def set_timeout(self, org_id: OrgId, sandbox_id: SandboxId, seconds: int) -> bool:
        await _a_moment()
        row = await self.get(org_id, sandbox_id)
        if row is not None:
            self._rows[sandbox_id] = replace(row, timeout_seconds=seconds)
        return row is not None

    async def in_states(self, states: Sequence[SandboxState]) -> Sequence[Sandbox]:
        await _a_moment()
        return [row for row in self._rows.values() if row.state in states]


class MemoryMachineRows:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._rows = tables.machines

    async def add(self, row: MachineRow) -> None:
        await _a_moment()
        self._rows[row.id] = row

    async def ready(self, machine_id: MachineId, record: DriverRecord) -> None:
        await _a_moment()
        self._change(machine_id, state=MachineState.READY, record=record)

    async def claim(self, machine_id: MachineId, sandbox_id: SandboxId, guest_token: str) -> None:
        await _a_moment()
        self._change(machine_id, state=MachineState.CLAIMED, sandbox_id=sandbox_id, guest_token=guest_token)
        if sandbox_id in self._tables.sandboxes:
            sandbox = self._tables.sandboxes[sandbox_id]
            self._tables.sandboxes[sandbox_id] = replace(sandbox, machine_id=machine_id)

    async def stopping(self, machine_id: MachineId) -> None:
        await _a_moment()
        self._change(machine_id, state=MachineState.STOPPING)

    async def remove(self, machine_id: MachineId) -> None:
        await _a_moment()
        self._rows.pop(machine_id, None)

    async def list(self) -> Sequence[MachineRow]:
        await _a_moment()
        return list(self._rows.values())

    def _change(self, machine_id: MachineId, **values: object) -> None:
        if machine_id in self._rows:
            self._rows[machine_id] = replace(self._rows[machine_id], **values)  # pyright: ignore[reportArgumentType] - names are fields
