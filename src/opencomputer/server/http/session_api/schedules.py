"""`/v3/agents/…/schedules`: sessions that start by the clock."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.sessions.agents import Agent
from opencomputer.server.domain.sessions.schedules import (
    Overlap,
    Schedule,
    ScheduleChanges,
    ScheduleRun,
    WantedSchedule,
)
from opencomputer.server.http.session_api.auth import Durable, OrgKey
from opencomputer.server.http.session_api.body import json_body
from opencomputer.server.http.session_api.paging import Bounds, page, page_of
from opencomputer.wire.starters import (
    CreateSchedule,
    ScheduleAnswer,
    ScheduleRunAnswer,
    ScheduleRunsView,
    ScheduleRunView,
    SchedulesView,
    ScheduleView,
    UpdateSchedule,
)

router = APIRouter(prefix="/agents/{agent}/schedules")

_RUNS = Bounds(50, 100)


async def _owned(agent: str, caller: OrgKey, services: Durable) -> Agent:
    return await services.agents.get(caller.org_id, agent)


Owned = Annotated[Agent, Depends(_owned)]
"""The agent of the path, which the path calls `agent`. Raises NotFound."""


@router.post("", status_code=201)
async def create(
    services: Durable,
    of: Owned,
    body: Annotated[CreateSchedule, Depends(json_body(CreateSchedule))],
) -> ScheduleAnswer:
    return _answer(await services.schedules.create(of, wanted(body)))


@router.get("")
async def list_schedules(services: Durable, of: Owned) -> SchedulesView:
    return SchedulesView(schedules=[_shown(each) for each in await services.schedules.list(of)])


@router.get("/{schedule}")
async def get(services: Durable, of: Owned, schedule: str) -> ScheduleAnswer:
    return _answer(await services.schedules.get(of, schedule))


@router.patch("/{schedule}")
async def update(
    services: Durable,
    of: Owned,
    schedule: str,
    body: Annotated[UpdateSchedule, Depends(json_body(UpdateSchedule))],
) -> ScheduleAnswer:
    """A schedule that was paused begins to count anew when it goes on, as does one with another timing."""
    if "name" in body.model_fields_set:
        raise InvalidInput("name: a schedule keeps its name", field="name")
    changes = ScheduleChanges(
        cron=body.cron,
        tz=body.tz,
        given_tz="tz" in body.model_fields_set,
        input=body.input,
        overlap=None if body.overlap is None else Overlap(body.overlap),
        paused=body.paused,
    )
    return _answer(await services.schedules.update(of, schedule, changes))


@router.delete("/{schedule}", status_code=204)
async def delete(services: Durable, of: Owned, schedule: str) -> None:
    """It starts nothing any more; its runs can still be listed."""
    await services.schedules.delete(of, schedule)


@router.post("/{schedule}/fire", status_code=201)
async def fire(services: Durable, of: Owned, schedule: str) -> ScheduleRunAnswer:
    """Start a session now. Whatever is sent along does not count; `outcome` says what came of it."""
    return ScheduleRunAnswer(run=_run(await services.schedules.fire(of, schedule)))


@router.get("/{schedule}/runs")
async def runs(
    services: Durable,
    of: Owned,
    schedule: str,
    limit: str | None = None,
    cursor: str | None = None,
) -> ScheduleRunsView:
    schedule_id = await services.schedules.of_runs(of, schedule)
    found, following = await page(
        page_of(limit, cursor, _RUNS, {"list": "schedule runs", "schedule": schedule_id}),
        lambda each: services.schedules.run(schedule_id, each),
        lambda most, last: services.schedules.runs(schedule_id, most, last),
    )
    return ScheduleRunsView(runs=[_run(each) for each in found], next_cursor=following)


def wanted(body: CreateSchedule) -> WantedSchedule:
    return WantedSchedule(body.name, body.cron, body.tz, body.input, Overlap(body.overlap))


def _answer(schedule: Schedule) -> ScheduleAnswer:
    return ScheduleAnswer(schedule=_shown(schedule))


def _shown(schedule: Schedule) -> ScheduleView:
    return ScheduleView(
        id=schedule.id,
        agent_id=schedule.agent_id,
        name=schedule.name,
        cron=schedule.cron,
        tz=schedule.tz,
        input=schedule.input,
        overlap=schedule.overlap,
        state=schedule.state,
        next_fire_at=schedule.next_fire_at,
        last_fired_at=schedule.last_fired_at,
        consecutive_failures=schedule.failures,
        last_error=schedule.last_error,
        created_at=schedule.created_at,
        updated_at=schedule.updated_at,
    )


def _run(run: ScheduleRun) -> ScheduleRunView:
    assert run.outcome is not None
    return ScheduleRunView(
        id=run.id,
        schedule_id=run.schedule_id,
        scheduled_for=run.scheduled_for,
        fired_at=run.fired_at,
        outcome=run.outcome,
        session_id=run.session_id,
        error=run.error,
    )
