"""Sandboxes in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from opencomputer.server.contracts.stores import SandboxFields
from opencomputer.server.domain.errors import ConcurrencyLimit, Conflict
from opencomputer.server.domain.lifecycle_events import LifecycleEvent, Move, scaled, told_of
from opencomputer.server.domain.lifecycle_webhooks import Webhook
from opencomputer.server.domain.metering import second_of
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
from opencomputer.server.domain.secrets import NOTHING_SEALED, Sealing
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.elasticity import elasticity_of, elasticity_values, is_still
from opencomputer.server.stores.sql.holdings import hold
from opencomputer.server.stores.sql.origins import field_values, origin_values, shape_of, shape_values
from opencomputer.server.stores.sql.preview_tables import grants, previews
from opencomputer.server.stores.sql.tables import organisations, sandboxes
from opencomputer.server.stores.sql.telling import Ring, listens, tell, unheard
from opencomputer.server.stores.sql.usage import METERED, keep_count
from opencomputer.server.stores.sql.webhooks import add_inline, remove_of_sandbox
from opencomputer.wire.ids import OrgId, SandboxId


class SqlSandboxStore:
    """Implements SandboxStore. `ring` is called when something is to be told of a sandbox."""

    def __init__(self, database: Database, ring: Ring = unheard) -> None:
        self._database = database
        self._ring = ring

    async def add(
        self,
        sandbox: Sandbox,
        sealing: Sealing = NOTHING_SEALED,
        *,
        concurrency_limit: int | None,
        webhooks: Sequence[Webhook] = (),
    ) -> None:
        try:
            async with self._database.write() as connection:
                if concurrency_limit is not None:
                    await _check_limit(connection, sandbox.org_id, sandbox.id, concurrency_limit)
                await connection.execute(sandboxes.insert().values(_values(sandbox)))
                await hold(connection, sandbox.id, sealing)
                await add_inline(connection, webhooks)
        except IntegrityError as error:
            raise Conflict("this idempotency key, or this id, is in use") from error

    async def get(self, org_id: OrgId, sandbox_id: SandboxId) -> Sandbox | None:
        mine = (sandboxes.c.id == sandbox_id) & (sandboxes.c.org_id == org_id)
        return await self._first(mine)

    async def find(self, sandbox_id: SandboxId) -> Sandbox | None:
        return await self._first(sandboxes.c.id == sandbox_id)

    async def by_idempotency_key(self, org_id: OrgId, key: str) -> Sandbox | None:
        return await self._first((sandboxes.c.org_id == org_id) & (sandboxes.c.idempotency_key == key))

    async def _first(self, condition: sa.ColumnElement[bool]) -> Sandbox | None:
        row = await self._database.first(sa.select(sandboxes).where(condition))
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
        return [_sandbox(row) for row in await self._database.rows(query)]

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
        check_transition(before, after)
        statement = (
            sandboxes.update()
            .where(sandboxes.c.id == sandbox_id, sandboxes.c.state == before)
            .values(field_values(fields or {}) | _moved_values(before, after, at, reason))
            .returning(*METERED, listens().label("is_heard"))
        )
        async with self._database.write() as connection:
            moved = (await connection.execute(statement)).first()
            if moved is None:
                return False
            await keep_count(connection, moved, second_of(at), before=before)
            if after in TERMINAL:
                await connection.execute(previews.delete().where(previews.c.sandbox_id == sandbox_id))
                await connection.execute(grants.delete().where(grants.c.sandbox_id == sandbox_id))
            if after is SandboxState.FAILED:
                await remove_of_sandbox(connection, sandbox_id)
            if concurrency_limit is not None and after in ACTIVE and before not in ACTIVE:
                await _check_limit(connection, moved.org_id, sandbox_id, concurrency_limit)
            told = moved.is_heard and await _tell_of_move(connection, sandbox_id, before, at)
        if told:
            self._ring()
        return True

    async def update(self, sandbox_id: SandboxId, fields: SandboxFields) -> bool:
        # With the id, because there is no statement that sets nothing.
        values = {"id": sandbox_id, **field_values(fields)}
        statement = sandboxes.update().where(sandboxes.c.id == sandbox_id).values(values)
        return await self._database.run(statement) > 0

    async def due(self, now: datetime, *, limit: int) -> Sequence[Sandbox]:
        query = (
            sa.select(sandboxes)
            .where(sandboxes.c.state == SandboxState.RUNNING, sandboxes.c.due_at <= now)
            .order_by(sandboxes.c.due_at, sandboxes.c.id)
            .limit(limit)
        )
        return [_sandbox(row) for row in await self._database.rows(query)]

    async def rescale(
        self,
        sandbox_id: SandboxId,
        before: Elasticity,
        after: Elasticity,
        *,
        at: datetime,
        shape: SandboxShape | None = None,
    ) -> bool:
        states = sorted(set(SandboxState) - TERMINAL) if shape is None else [SandboxState.RUNNING]
        values = elasticity_values(after) | ({} if shape is None else shape_values(shape))
        statement = (
            sandboxes.update()
            .where(sandboxes.c.id == sandbox_id, sandboxes.c.state.in_(states), *is_still(before))
            .values(values)
            .returning(*METERED)
        )
        async with self._database.write() as connection:
            earlier = None if shape is None else await _shape(connection, sandbox_id)
            changed = (await connection.execute(statement)).first()
            if changed is None:
                return False
            events: list[LifecycleEvent] = []
            if shape is not None:
                await keep_count(connection, changed, second_of(at))
                if shape != earlier:
                    events = [scaled(OrgId(changed.org_id), sandbox_id, shape, at)]
            told = await tell(connection, events)
        if told:
            self._ring()
        return True

    async def autoscaled(self) -> Sequence[Sandbox]:
        query = sa.select(sandboxes).where(
            sandboxes.c.state == SandboxState.RUNNING, sandboxes.c.autoscale.is_(True)
        )
        return [_sandbox(row) for row in await self._database.rows(query)]

    async def set_timeout(self, org_id: OrgId, sandbox_id: SandboxId, seconds: int) -> bool:
        mine = (sandboxes.c.id == sandbox_id) & (sandboxes.c.org_id == org_id)
        return await self._database.run(sandboxes.update().where(mine).values(timeout_seconds=seconds)) > 0

    async def in_states(self, states: Sequence[SandboxState]) -> Sequence[Sandbox]:
        query = sa.select(sandboxes).where(sandboxes.c.state.in_(states))
        return [_sandbox(row) for row in await self._database.rows(query)]


async def _tell_of_move(
    connection: AsyncConnection, sandbox_id: SandboxId, before: SandboxState, at: datetime
) -> bool:
    row = (await connection.execute(sa.select(sandboxes).where(sandboxes.c.id == sandbox_id))).one()
    return await tell(connection, told_of(Move(_sandbox(row), before, at)))


async def _shape(connection: AsyncConnection, sandbox_id: SandboxId) -> SandboxShape | None:
    query = sa.select(sandboxes).where(sandboxes.c.id == sandbox_id).with_for_update()
    row = (await connection.execute(query)).first()
    return None if row is None else shape_of(row)


async def _check_limit(connection: AsyncConnection, org_id: OrgId, other_than: SandboxId, limit: int) -> None:
    # Two transactions that count at once would both find room. Where several may write at a time, one waits
    # here; foreign keys that refer to the organisation do not.
    mine = sa.select(organisations.c.id).where(organisations.c.id == org_id)
    await connection.execute(mine.with_for_update(key_share=True))
    query = sa.select(sa.func.count()).where(
        sandboxes.c.org_id == org_id, sandboxes.c.state.in_(sorted(ACTIVE)), sandboxes.c.id != other_than
    )
    active = (await connection.execute(query)).scalar_one()
    if active >= limit:
        raise ConcurrencyLimit(active=active, limit=limit)


def _moved_values(
    before: SandboxState, after: SandboxState, at: datetime, reason: StopReason | None
) -> dict[str, Any]:
    """What a move changes by itself."""
    values: dict[str, Any] = {"state": after}
    if before is SandboxState.CREATING and after is SandboxState.RUNNING:
        values["started_at"] = at
    if after not in ACTIVE:
        values["machine_id"] = None
    if after in TERMINAL:
        values |= {"stopped_at": at, "stop_reason": reason, "due_at": None}
    if after is SandboxState.FAILED:
        # A create that failed left nothing: its key may be used again.
        values["idempotency_key"] = None
    return values


def _values(sandbox: Sandbox) -> dict[str, Any]:
    return {
        "id": sandbox.id,
        "org_id": sandbox.org_id,
        "state": sandbox.state,
        **origin_values(sandbox),
        "origin_layers": sandbox.origin_layers,
        "timeout_seconds": sandbox.timeout_seconds,
        "alias": sandbox.alias,
        "machine_id": sandbox.machine_id,
        "created_at": sandbox.created_at,
        "started_at": sandbox.started_at,
        "stopped_at": sandbox.stopped_at,
        "stop_reason": sandbox.stop_reason,
        "idempotency_key": sandbox.idempotency_key,
        "request_hash": sandbox.request_hash,
        "from_checkpoint": sandbox.from_checkpoint,
        "forked_from": sandbox.forked_from,
        "hibernation": sandbox.hibernation,
        "patch_error": sandbox.patch_error,
        "due_at": sandbox.due_at,
        "hibernate_failures": sandbox.hibernate_failures,
        "last_hibernate_error": sandbox.last_hibernate_error,
        "recovered": sandbox.recovered,
        "file_url_epoch": sandbox.file_url_epoch,
        **elasticity_values(sandbox.elasticity),
        "preview_token_hash": sandbox.preview_token_hash,
    }


def _sandbox(row: sa.Row[Any]) -> Sandbox:
    return Sandbox(
        id=SandboxId(row.id),
        org_id=OrgId(row.org_id),
        state=SandboxState(row.state),
        template=row.template,
        template_hash=row.template_hash,
        shape=shape_of(row),
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
        layers=row.layers,
        origin_layers=row.origin_layers,
        workdir=row.workdir,
        generation=row.generation,
        from_checkpoint=row.from_checkpoint,
        forked_from=row.forked_from,
        hibernation=row.hibernation,
        patch_source=row.patch_source,
        patch_position=row.patch_position,
        patch_error=row.patch_error,
        due_at=row.due_at,
        hibernate_failures=row.hibernate_failures,
        last_hibernate_error=row.last_hibernate_error,
        recovered=row.recovered,
        file_url_epoch=row.file_url_epoch,
        elasticity=elasticity_of(row),
        preview_token_hash=row.preview_token_hash,
        secret_stores=row.secret_stores,
        egress_allowlist=row.egress_allowlist,
    )
