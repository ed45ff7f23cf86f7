"""What sandboxes used, in SQL."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias, cast

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from opencomputer.server.domain.metering import Interval, MemorySample, Meter, counted, switch
from opencomputer.server.domain.sandbox import TERMINAL, SandboxShape, SandboxState
from opencomputer.server.domain.tags import Tags
from opencomputer.server.domain.usage import Described, Window
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.tables import sandboxes
from opencomputer.server.stores.sql.tag_tables import tag_sets, tags
from opencomputer.server.stores.sql.usage_tables import usage_heartbeat, usage_intervals, usage_samples
from opencomputer.wire.ids import OrgId, SandboxId

_Row: TypeAlias = sa.Row[*tuple[Any, ...]]

_ID = 1
_AT_ONCE = 500
"""So that others get their turn to write in between, and no statement has too many values."""

METERED = (
    sandboxes.c.id,
    sandboxes.c.org_id,
    sandboxes.c.state,
    sandboxes.c.memory_mb,
    sandboxes.c.cpu_count,
    sandboxes.c.disk_mb,
)
"""What `keep_count` has to know of a sandbox's row."""

_ledger = usage_intervals.c


async def keep_count(
    connection: AsyncConnection, row: _Row, second: int, *, before: SandboxState | None = None
) -> None:
    """Have what counts of a sandbox follow its row, in the transaction that changes the row.

    `row` has METERED, as changed; `before` is the state it was in, where that has changed.
    """
    state = SandboxState(row.state)
    if before is SandboxState.CREATING and state in TERMINAL:
        return
    wanted = counted(state, SandboxShape(row.memory_mb, row.cpu_count, row.disk_mb))
    if not wanted:
        await _end(connection, row.id, list(Meter), second)
        return
    # Nothing counts before a sandbox is ready for the first time: its create is spared a question.
    new = before is SandboxState.CREATING
    running: Mapping[Meter, int] = {} if new else await _running(connection, row.id)
    change = switch(running, wanted)
    if change.ending:
        await _end(connection, row.id, change.ending, second)
    if change.beginning:
        await connection.execute(
            usage_intervals.insert(),
            [
                {
                    "org_id": row.org_id,
                    "sandbox_id": row.id,
                    "meter": meter,
                    "megabytes": megabytes,
                    "begin_second": second,
                }
                for meter, megabytes in change.beginning.items()
            ],
        )


async def _running(connection: AsyncConnection, sandbox_id: str) -> Mapping[Meter, int]:
    query = sa.select(_ledger.meter, _ledger.megabytes).where(*_open(sandbox_id))
    return {Meter(row.meter): row.megabytes for row in await connection.execute(query)}


async def _end(connection: AsyncConnection, sandbox_id: str, meters: Collection[Meter], second: int) -> None:
    # The clock may have been set back, or the end be one that is only known to have come later.
    end = sa.case((_ledger.begin_second > second, _ledger.begin_second), else_=second)
    await connection.execute(
        usage_intervals.update().where(*_open(sandbox_id), _ledger.meter.in_(meters)).values(end_second=end)
    )


def _open(sandbox_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    return _ledger.sandbox_id == sandbox_id, _ledger.end_second.is_(None)


def _again(second: int, samples: Sequence[MemorySample]) -> sa.Delete:
    """Make room for samples of a second that comes again, because the clock was set back."""
    mine = usage_samples.c.sandbox_id.in_([each.sandbox_id for each in samples])
    return usage_samples.delete().where(mine, usage_samples.c.second == second)


def _intervals(rows: Sequence[sa.Row[Any]]) -> Sequence[Interval]:
    meters = {str(each): each for each in Meter}
    return [
        Interval(SandboxId(sandbox_id), meters[meter], megabytes, begin, end)
        for sandbox_id, meter, megabytes, begin, end in cast("Sequence[tuple[Any, ...]]", rows)
    ]


class SqlUsageStore:
    """Implements UsageStore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def intervals(self, org_id: OrgId, window: Window) -> Sequence[Interval]:
        return await self._intervals(_ledger.org_id == org_id, window)

    async def intervals_of(self, sandbox_id: SandboxId, window: Window) -> Sequence[Interval]:
        return await self._intervals(_ledger.sandbox_id == sandbox_id, window)

    async def _intervals(self, whose: sa.ColumnElement[bool], window: Window) -> Sequence[Interval]:
        query = (
            sa.select(
                _ledger.sandbox_id,
                _ledger.meter,
                _ledger.megabytes,
                _ledger.begin_second,
                _ledger.end_second,
            )
            .where(whose, _ledger.begin_second < window.end)
            .where(sa.or_(_ledger.end_second.is_(None), _ledger.end_second > window.begin))
            .order_by(_ledger.begin_second, _ledger.position)
        )
        # There may be very many: others have their turn meanwhile.
        return await asyncio.to_thread(_intervals, await self._database.rows(query))

    async def samples_of(self, sandbox_id: SandboxId, window: Window) -> Sequence[MemorySample]:
        columns = usage_samples.c
        query = (
            sa.select(columns.second, columns.kib)
            .where(columns.sandbox_id == sandbox_id)
            .where(columns.second >= window.begin, columns.second < window.end)
            .order_by(columns.second)
        )
        rows = await self._database.rows(query)
        return [MemorySample(sandbox_id, row.second, row.kib) for row in rows]

    async def described(self, sandbox_ids: Collection[SandboxId]) -> Mapping[SandboxId, Described]:
        joined = sandboxes.outerjoin(tag_sets, tag_sets.c.sandbox_id == sandboxes.c.id)
        rows = (
            sa.select(sandboxes.c.id, sandboxes.c.alias, sandboxes.c.state, tag_sets.c.updated_at)
            .select_from(joined)
            .where(sandboxes.c.id.in_(sandbox_ids))
        )
        pairs = sa.select(tags.c.sandbox_id, tags.c.key, tags.c.value).where(
            tags.c.sandbox_id.in_(sandbox_ids)
        )
        values: dict[str, dict[str, str]] = {}
        async with self._database.read() as connection:
            for row in await connection.execute(pairs.order_by(tags.c.key)):
                values.setdefault(row.sandbox_id, {})[row.key] = row.value
            found = (await connection.execute(rows)).all()
        return {
            SandboxId(row.id): Described(
                row.alias, SandboxState(row.state), Tags(values.get(row.id, {}), row.updated_at)
            )
            for row in found
        }

    async def note(self, second: int, samples: Sequence[MemorySample]) -> None:
        beat = usage_heartbeat.update().where(usage_heartbeat.c.id == _ID).values(second=second)
        async with self._database.write() as connection:
            if (await connection.execute(beat)).rowcount == 0:
                await connection.execute(usage_heartbeat.insert().values(id=_ID, second=second))
            if samples:
                await connection.execute(_again(second, samples))
                await connection.execute(usage_samples.insert(), [asdict(each) for each in samples])

    async def last_noted(self) -> int | None:
        row = await self._database.first(sa.select(usage_heartbeat.c.second))
        return None if row is None else row.second

    async def prune(self, *, intervals_before: int, samples_before: int) -> int:
        pruned = await self._prune_intervals(intervals_before)
        columns = usage_samples.c
        # Looked for in a transaction that only reads: it may take long, and nobody waits for it.
        oldest = sa.select(columns.sandbox_id).where(columns.second < samples_before).distinct()
        for row in await self._database.rows(oldest):
            pruned += await self._database.run(
                usage_samples.delete().where(
                    columns.sandbox_id == row.sandbox_id, columns.second < samples_before
                )
            )
        return pruned

    async def _prune_intervals(self, before: int) -> int:
        some = sa.select(_ledger.position).where(_ledger.end_second < before).limit(_AT_ONCE)
        pruned = 0
        while True:
            done = await self._database.run(usage_intervals.delete().where(_ledger.position.in_(some)))
            pruned += done
            if done < _AT_ONCE:
                return pruned
