"""Sandboxes in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from opencomputer.server.domain.errors import ConcurrencyLimit, Conflict
from opencomputer.server.domain.sandbox import (
    Sandbox,
    SandboxShape,
    SandboxState,
    StopReason,
    check_transition,
)
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.tables import sandboxes
from opencomputer.wire.ids import OrgId, SandboxId

_COUNTED = (SandboxState.CREATING, SandboxState.RUNNING)


class SqlSandboxStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, sandbox: Sandbox, *, concurrency_limit: int | None) -> None:
        try:
            async with self._database.write() as connection:
                if concurrency_limit is not None:
                    counted = (sandboxes.c.org_id == sandbox.org_id) & sandboxes.c.state.in_(_COUNTED)
                    query = sa.select(sa.func.count()).select_from(sandboxes).where(counted)
                    active = (await connection.execute(query)).scalar_one()
                    if active >= concurrency_limit:
                        raise ConcurrencyLimit(active=active, limit=concurrency_limit)
                await connection.execute(sandboxes.insert().values(_values(sandbox)))
        except IntegrityError as error:
            raise Conflict("this idempotency key, or this id, is in use") from error

    async def get(self, org_id: OrgId, sandbox_id: SandboxId) -> Sandbox | None:
        mine = (sandboxes.c.id == sandbox_id) & (sandboxes.c.org_id == org_id)
        return await self._first(mine)

    async def by_idempotency_key(self, org_id: OrgId, key: str) -> Sandbox | None:
        return await self._first((sandboxes.c.org_id == org_id) & (sandboxes.c.idempotency_key == key))

    async def _first(self, condition: sa.ColumnElement[bool]) -> Sandbox | None:
        async with self._database.read() as connection:
            row = (await connection.execute(sa.select(sandboxes).where(condition))).first()
        return None if row is None else _sandbox(row)

    async def list(
        self, org_id: OrgId, states: Sequence[SandboxState], *, limit: int, before: Sandbox | None = None
    ) -> Sequence[Sandbox]:
        query = (
            sa.select(sandboxes)
            .where(sandboxes.c.org_id == org_id, sandboxes.c.state.in_(states))
            .order_by(sandboxes.c.created_at.desc(), sandboxes.c.id.desc())
            .limit(limit)
        )
        if before is not None:
            query = query.where(
                sa.tuple_(sandboxes.c.created_at, sandboxes.c.id)
                < sa.tuple_(sa.literal(before.created_at, sandboxes.c.created_at.type), sa.literal(before.id))
            )
        async with self._database.read() as connection:
            return [_sandbox(row) for row in await connection.execute(query)]

    async def move(
        self,
        sandbox_id: SandboxId,
        before: SandboxState,
        after: SandboxState,
        *,
        at: datetime,
        reason: StopReason | None = None,
    ) -> bool:
        check_transition(before, after)
        values: dict[str, Any] = {"state": after}
        if after is SandboxState.RUNNING:
            values["started_at"] = at
        else:
            values |= {"stopped_at": at, "stop_reason": reason, "machine_id": None}
        if after is SandboxState.FAILED:
            # A create that failed left nothing: its key may be used again.
            values["idempotency_key"] = None
        async with self._database.write() as connection:
            result = await connection.execute(
                sandboxes.update()
                .where(sandboxes.c.id == sandbox_id, sandboxes.c.state == before)
                .values(values)
            )
            return result.rowcount > 0

    async def set_timeout(self, org_id: OrgId, sandbox_id: SandboxId, seconds: int) -> bool:
        mine = (sandboxes.c.id == sandbox_id) & (sandboxes.c.org_id == org_id)
        async with self._database.write() as connection:
            result = await connection.execute(sandboxes.update().where(mine).values(timeout_seconds=seconds))
            return result.rowcount > 0

    async def in_states(self, states: Sequence[SandboxState]) -> Sequence[Sandbox]:
        async with self._database.read() as connection:
            rows = await connection.execute(sa.select(sandboxes).where(sandboxes.c.state.in_(states)))
            return [_sandbox(row) for row in rows]


def _values(sandbox: Sandbox) -> dict[str, Any]:
    return {
        "id": sandbox.id,
        "org_id": sandbox.org_id,
        "state": sandbox.state,
        "template": sandbox.template,
        "template_hash": sandbox.template_hash,
        "memory_mb": sandbox.shape.memory_mb,
        "cpu_count": sandbox.shape.cpu_count,
        "disk_mb": sandbox.shape.disk_mb,
        "timeout_seconds": sandbox.timeout_seconds,
        "environment": dict(sandbox.environment),
        "metadata": dict(sandbox.metadata),
        "alias": sandbox.alias,
        "network_enabled": sandbox.network_enabled,
        "machine_id": sandbox.machine_id,
        "created_at": sandbox.created_at,
        "started_at": sandbox.started_at,
        "stopped_at": sandbox.stopped_at,
        "stop_reason": sandbox.stop_reason,
        "idempotency_key": sandbox.idempotency_key,
        "request_hash": sandbox.request_hash,
    }


def _sandbox(row: sa.Row[Any]) -> Sandbox:
    return Sandbox(
        id=SandboxId(row.id),
        org_id=OrgId(row.org_id),
        state=SandboxState(row.state),
        template=row.template,
        template_hash=row.template_hash,
        shape=SandboxShape(row.memory_mb, row.cpu_count, row.disk_mb),
        timeout_seconds=row.timeout_seconds,
        environment=row.environment,
        metadata=row.metadata,
        alias=row.alias,
        network_enabled=row.network_enabled,
        machine_id=row.machine_id,
        created_at=row.created_at,
        started_at=row.started_at,
        stopped_at=row.stopped_at,
        stop_reason=None if row.stop_reason is None else StopReason(row.stop_reason),
        idempotency_key=row.idempotency_key,
        request_hash=row.request_hash,
    )
