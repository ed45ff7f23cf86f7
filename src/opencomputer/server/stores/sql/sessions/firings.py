"""Which schedules fire, and who does it: a run is written in the transaction that moves its schedule on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from opencomputer.server.contracts.starters import Firing, Hold
from opencomputer.server.domain.sessions.naming import new_schedule_run_id
from opencomputer.server.domain.sessions.schedules import Schedule, ScheduleRun, ScheduleState, fired, settled
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.sessions.schedules import (
    run_of,
    run_values,
    schedule_of,
    write_schedule,
)
from opencomputer.server.stores.sql.sessions.starter_tables import schedule_runs, schedules
from opencomputer.wire.ids import ScheduleId

_ACTIVE = (schedules.c.state == ScheduleState.ACTIVE) & schedules.c.deleted_at.is_(None)
_OPEN = schedule_runs.c.outcome.is_(None) & schedule_runs.c.held_until.is_not(None)


class SqlFiringStore:
    """Implements FiringStore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, now: datetime, hold: Hold, *, limit: int) -> Sequence[Firing]:
        due = sa.select(schedules).where(_ACTIVE, schedules.c.next_fire_at <= now)
        due = due.order_by(schedules.c.next_fire_at, schedules.c.id).limit(limit)
        async with self._database.write() as connection:
            firings = await self._left_behind(connection, now, hold, limit)
            # Another node's are passed over; it moves them on before it lets go of them.
            for row in (await connection.execute(due.with_for_update(skip_locked=True))).all():
                firing = await self._fire(connection, schedule_of(row), now, hold)
                firings += [] if firing is None else [firing]
        return firings

    async def _fire(
        self, connection: AsyncConnection, schedule: Schedule, now: datetime, hold: Hold
    ) -> Firing | None:
        after, run = fired(schedule, new_schedule_run_id(), now)
        await write_schedule(connection, after)
        same = (schedule_runs.c.schedule_id == schedule.id) & (
            schedule_runs.c.scheduled_for == run.scheduled_for
        )
        if (await connection.execute(sa.select(schedule_runs.c.id).where(same))).first() is not None:
            # It has fired at this time, by a clock that was set back since.
            return None
        await _insert(connection, run, hold)
        return Firing(after, run)

    async def _left_behind(
        self, connection: AsyncConnection, now: datetime, hold: Hold, limit: int
    ) -> list[Firing]:
        query = sa.select(schedule_runs).where(_OPEN, schedule_runs.c.held_until <= now)
        query = query.order_by(schedule_runs.c.held_until).limit(limit).with_for_update(skip_locked=True)
        runs = [run_of(row) for row in (await connection.execute(query)).all()]
        if not runs:
            return []
        taken = schedule_runs.c.id.in_([each.id for each in runs])
        held = {"held_by": hold.owner, "held_until": hold.until}
        await connection.execute(schedule_runs.update().where(taken).values(held))
        theirs = sa.select(schedules).where(schedules.c.id.in_({each.schedule_id for each in runs}))
        of = {ScheduleId(row.id): schedule_of(row) for row in await connection.execute(theirs)}
        return [Firing(of[each.schedule_id], each) for each in runs]

    async def begin(self, run: ScheduleRun, hold: Hold) -> None:
        async with self._database.write() as connection:
            await _insert(connection, run, hold)

    async def settle(self, run: ScheduleRun, at: datetime, *, keep: int) -> ScheduleRun:
        mine = schedule_runs.c.id == run.id
        over = {**run_values(run), "held_by": None, "held_until": None}
        locked = sa.select(schedules).where(schedules.c.id == run.schedule_id).with_for_update()
        async with self._database.write() as connection:
            schedule = schedule_of((await connection.execute(locked)).one())
            written = schedule_runs.update().where(mine, schedule_runs.c.outcome.is_(None)).values(over)
            if (await connection.execute(written)).rowcount > 0:
                await write_schedule(connection, settled(schedule, run, at))
                await _trim(connection, run.schedule_id, keep)
                return run
            # Somebody else thought that we were dead, and has done it.
            return run_of((await connection.execute(sa.select(schedule_runs).where(mine))).one())

    async def disown(self, prefix: str, owner: str) -> None:
        theirs = schedule_runs.c.held_by.startswith(prefix, autoescape=True) & (
            schedule_runs.c.held_by != owner
        )
        # A moment that has been, for whatever clock.
        freed = {"held_until": schedule_runs.c.fired_at}
        await self._database.run(schedule_runs.update().where(_OPEN, theirs).values(freed))

    async def next_due(self) -> datetime | None:
        queries = (
            sa.select(sa.func.min(schedules.c.next_fire_at)).where(_ACTIVE),
            sa.select(sa.func.min(schedule_runs.c.held_until)).where(_OPEN),
        )
        async with self._database.read() as connection:
            moments = [(await connection.execute(query)).scalar() for query in queries]
        return min((each for each in moments if each is not None), default=None)


async def _insert(connection: AsyncConnection, run: ScheduleRun, hold: Hold) -> None:
    values = {**run_values(run), "held_by": hold.owner, "held_until": hold.until}
    await connection.execute(schedule_runs.insert().values(values))


async def _trim(connection: AsyncConnection, schedule_id: ScheduleId, keep: int) -> None:
    table = schedule_runs.c
    over = (table.schedule_id == schedule_id) & table.outcome.is_not(None)
    newest_first = sa.select(table.fired_at, table.id).where(over)
    newest_first = newest_first.order_by(table.fired_at.desc(), table.id.desc())
    newest = (await connection.execute(newest_first.offset(keep).limit(1))).first()
    if newest is not None:
        place = sa.tuple_(sa.literal(newest.fired_at, table.fired_at.type), sa.literal(newest.id))
        older = over & (sa.tuple_(table.fired_at, table.id) <= place)
        await connection.execute(schedule_runs.delete().where(older))
