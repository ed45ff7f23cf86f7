"""Machines in SQL: what we want of each, written before anything exists on the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from opencomputer.server.contracts.driver import DriverRecord, MachineId
from opencomputer.server.contracts.stores import MachineRow, MachineState, SandboxFields
from opencomputer.server.domain.errors import Gone
from opencomputer.server.domain.sandbox import ACTIVE
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.origins import field_values
from opencomputer.server.stores.sql.tables import machines, sandboxes
from opencomputer.wire.ids import SandboxId


class SqlMachineStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, row: MachineRow) -> None:
        await self._database.run(machines.insert().values(asdict(row)))

    async def ready(self, machine_id: MachineId, record: DriverRecord) -> None:
        await self._update(machine_id, state=MachineState.READY, record=asdict(record))

    async def claim(
        self,
        machine_id: MachineId,
        sandbox_id: SandboxId,
        guest_token: str,
        fields: SandboxFields | None = None,
    ) -> None:
        async with self._database.write() as connection:
            await connection.execute(
                machines.update()
                .where(machines.c.id == machine_id)
                .values(state=MachineState.CLAIMED, sandbox_id=sandbox_id, guest_token=guest_token)
            )
            given = await connection.execute(
                sandboxes.update()
                .where(sandboxes.c.id == sandbox_id, sandboxes.c.state.in_(ACTIVE))
                .values(machine_id=machine_id, **field_values(fields or {}))
            )
            if given.rowcount == 0:
                raise Gone

    async def stopping(self, machine_id: MachineId) -> None:
        await self._update(machine_id, state=MachineState.STOPPING)

    async def remove(self, machine_id: MachineId) -> None:
        await self._database.run(machines.delete().where(machines.c.id == machine_id))

    async def list(self) -> Sequence[MachineRow]:
        return [_machine(row) for row in await self._database.rows(sa.select(machines))]

    async def _update(self, machine_id: MachineId, **values: Any) -> None:
        await self._database.run(machines.update().where(machines.c.id == machine_id).values(values))


def _machine(row: sa.Row[Any]) -> MachineRow:
    record = row.record
    return MachineRow(
        id=MachineId(row.id),
        state=MachineState(row.state),
        template_hash=row.template_hash,
        image_version=row.image_version,
        guest_token=row.guest_token,
        created_at=row.created_at,
        record=None
        if record is None
        else DriverRecord(record["driver"], MachineId(record["machine_id"]), record["state"]),
        sandbox_id=None if row.sandbox_id is None else SandboxId(row.sandbox_id),
        layers=row.layers,
    )
