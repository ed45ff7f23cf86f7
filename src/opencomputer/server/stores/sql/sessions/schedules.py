"""Schedules of agents, and their runs, in SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sessions.agents import Agent
from opencomputer.server.domain.sessions.errors import LimitReached, NameTaken
from opencomputer.server.domain.sessions.naming import new_schedule_id
from opencomputer.server.domain.sessions.schedules import (
    Overlap,
    RunOutcome,
    Schedule,
    ScheduleChanges,
    ScheduleRun,
    ScheduleState,
    WantedSchedule,
    changed,
    new_schedule,
)
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.sessions.agent_tables import agents
from opencomputer.server.stores.sql.sessions.starter_tables import schedule_runs, schedules
from opencomputer.wire.ids import AgentId, OrgId, ScheduleId, ScheduleRunId, SessionId

_THERE = schedules.c.deleted_at.is_(None)


class SqlScheduleStore:
    """Implements ScheduleStore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, schedule: Schedule, *, most: int) -> None:
        try:
            async with self._database.write() as connection:
                await lock_agent(connection, schedule.agent_id)
                mine = (schedules.c.agent_id == schedule.agent_id) & _THERE
                count = sa.select(sa.func.count()).select_from(schedules).where(mine)
                if (await connection.execute(count)).scalar_one() >= most:
                    raise LimitReached(f"an agent has at most {most} schedules", limit=most)
                await connection.execute(schedules.insert().values(schedule_values(schedule)))
        except IntegrityError as error:
            raise NameTaken("the agent has another schedule of this name", field="name") from error

    async def list(self, agent_id: AgentId) -> Sequence[Schedule]:
        query = sa.select(schedules).where(schedules.c.agent_id == agent_id, _THERE)
        oldest_first = query.order_by(schedules.c.created_at, schedules.c.id)
        return [schedule_of(row) for row in await self._database.rows(oldest_first)]

    async def get(self, agent_id: AgentId, schedule_id: ScheduleId) -> Schedule | None:
        row = await self._database.first(sa.select(schedules).where(_is(agent_id, schedule_id)))
        return None if row is None else schedule_of(row)

    async def change(
        self, agent_id: AgentId, schedule_id: ScheduleId, decide: Callable[[Schedule], Schedule]
    ) -> Schedule | None:
        query = sa.select(schedules).where(_is(agent_id, schedule_id), _THERE).with_for_update()
        async with self._database.write() as connection:
            row = (await connection.execute(query)).first()
            if row is None:
                return None
            after = decide(schedule_of(row))
            await write_schedule(connection, after)
            return after

    async def runs(
        self, schedule_id: ScheduleId, *, limit: int, before: ScheduleRun | None = None
    ) -> Sequence[ScheduleRun]:
        table = schedule_runs.c
        query = sa.select(schedule_runs).where(table.schedule_id == schedule_id, table.outcome.is_not(None))
        if before is not None:
            moment = sa.literal(before.fired_at, table.fired_at.type)
            query = query.where(
                sa.tuple_(table.fired_at, table.id) < sa.tuple_(moment, sa.literal(before.id))
            )
        newest_first = query.order_by(table.fired_at.desc(), table.id.desc()).limit(limit)
        return [run_of(row) for row in await self._database.rows(newest_first)]

    async def run(self, schedule_id: ScheduleId, run_id: ScheduleRunId) -> ScheduleRun | None:
        mine = (schedule_runs.c.schedule_id == schedule_id) & (schedule_runs.c.id == run_id)
        row = await self._database.first(sa.select(schedule_runs).where(mine))
        return None if row is None else run_of(row)


async def lock_agent(connection: AsyncConnection, agent_id: AgentId) -> None:
    """What belongs to an agent is counted and added by one at a time. Raises NotFound."""
    there = (agents.c.id == agent_id) & agents.c.deleted_at.is_(None)
    if (await connection.execute(sa.select(agents.c.id).where(there).with_for_update())).first() is None:
        raise NotFound("there is no such agent")


async def sync_schedules(
    connection: AsyncConnection, agent: Agent, wanted: Sequence[WantedSchedule], at: datetime
) -> None:
    """Let an agent have these schedules and no others. Those of the same name stay, and stay paused."""
    query = sa.select(schedules).where(schedules.c.agent_id == agent.id, _THERE).with_for_update()
    present = {row.name: schedule_of(row) for row in await connection.execute(query)}
    for each in wanted:
        there = present.pop(each.name, None)
        if there is None:
            new = new_schedule(new_schedule_id(), (agent.org_id, agent.id), each, at)
            await connection.execute(schedules.insert().values(schedule_values(new)))
        else:
            changes = ScheduleChanges(each.cron, each.tz, True, each.input, each.overlap)
            await write_schedule(connection, changed(there, changes, at))
    for each in present.values():
        await write_schedule(connection, replace(each, deleted_at=at, updated_at=at))


async def write_schedule(connection: AsyncConnection, schedule: Schedule) -> None:
    """Over the one that is there, which is locked."""
    mine = schedules.update().where(schedules.c.id == schedule.id)
    await connection.execute(mine.values(schedule_values(schedule)))


def _is(agent_id: AgentId, schedule_id: ScheduleId) -> sa.ColumnElement[bool]:
    return (schedules.c.agent_id == agent_id) & (schedules.c.id == schedule_id)


def schedule_values(schedule: Schedule) -> dict[str, Any]:
    values = {each.name: getattr(schedule, each.name) for each in fields(Schedule)}
    return values | {"unique_name": schedule.name if schedule.deleted_at is None else None}


def schedule_of(row: sa.Row[Any]) -> Schedule:
    values = {each.name: getattr(row, each.name) for each in fields(Schedule)}
    values |= {
        "id": ScheduleId(row.id),
        "org_id": OrgId(row.org_id),
        "agent_id": AgentId(row.agent_id),
        "overlap": Overlap(row.overlap),
        "state": ScheduleState(row.state),
        "last_session": None if row.last_session is None else SessionId(row.last_session),
    }
    return Schedule(**values)


def run_values(run: ScheduleRun) -> dict[str, Any]:
    return {each.name: getattr(run, each.name) for each in fields(ScheduleRun)}


def run_of(row: sa.Row[Any]) -> ScheduleRun:
    values = {each.name: getattr(row, each.name) for each in fields(ScheduleRun)}
    values |= {
        "id": ScheduleRunId(row.id),
        "schedule_id": ScheduleId(row.schedule_id),
        "outcome": None if row.outcome is None else RunOutcome(row.outcome),
        "session_id": None if row.session_id is None else SessionId(row.session_id),
    }
    return ScheduleRun(**values)
