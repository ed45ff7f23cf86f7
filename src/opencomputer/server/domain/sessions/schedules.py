"""Schedules: what starts sessions of an agent by the clock (agent-sessions.md sections 3.19, 4.11)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.sessions.crons import check_timing, next_time
from opencomputer.server.domain.sessions.errors import InvalidCron, LimitReached, PayloadTooLarge
from opencomputer.server.domain.sessions.events import USER_MESSAGE, Actor, Level, NewEvent
from opencomputer.wire.ids import AgentId, OrgId, ScheduleId, ScheduleRunId, SessionId

MOST_SCHEDULES = 20
MAX_INPUT_BYTES = 32 << 10
FAILURES_THAT_PAUSE = 5
MAX_ERROR_CHARACTERS = 500
SOURCE = "schedule"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


class ScheduleState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    AUTO_PAUSED = "auto_paused"


class Overlap(StrEnum):
    """What happens while the session that was started last still works."""

    SKIP = "skip"
    ALLOW = "allow"


class RunOutcome(StrEnum):
    ENACTED = "enacted"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True)
class WantedSchedule:
    """A schedule as it was asked for; everything is checked."""

    name: str
    cron: str
    tz: str | None
    input: str
    overlap: Overlap = Overlap.SKIP


@dataclass(frozen=True)
class Schedule:
    """`next_fire_at` counts while it is active. `failures` in a row; `last_session` it has started."""

    id: ScheduleId
    org_id: OrgId
    agent_id: AgentId
    name: str
    cron: str
    tz: str | None
    input: str
    overlap: Overlap
    state: ScheduleState
    next_fire_at: datetime
    created_at: datetime
    updated_at: datetime
    last_fired_at: datetime | None = None
    last_session: SessionId | None = None
    failures: int = 0
    last_error: str | None = None
    deleted_at: datetime | None = None


@dataclass(frozen=True)
class ScheduleRun:
    """One firing. `scheduled_for` None: by hand. `outcome` None: it is not over."""

    id: ScheduleRunId
    schedule_id: ScheduleId
    scheduled_for: datetime | None
    fired_at: datetime
    outcome: RunOutcome | None = None
    session_id: SessionId | None = None
    error: str | None = None


@dataclass(frozen=True)
class ScheduleChanges:
    """What becomes of a schedule. None: it stays; `tz` counts when it is `given`."""

    cron: str | None = None
    tz: str | None = None
    given_tz: bool = False
    input: str | None = None
    overlap: Overlap | None = None
    paused: bool | None = None


def check_name(name: str, field: str = "name") -> str:
    """A name that may stand in addresses. Raises InvalidInput."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"{field} must be 1 to 64 of a-z, 0-9 and -, and not begin with -", field=field)
    return name


def check_wanted(wanted: WantedSchedule, at: datetime, field: str = "") -> WantedSchedule:
    """Raises InvalidInput, InvalidCron or PayloadTooLarge; `field` is before the names of its members."""
    cron, tz = check_timing(wanted.cron, wanted.tz, at, field)
    check_name(wanted.name, f"{field}name")
    return replace(wanted, cron=cron, tz=tz, input=check_input(wanted.input, f"{field}input"))


def check_wanted_all(wanted: Sequence[WantedSchedule], at: datetime, field: str) -> list[WantedSchedule]:
    """All schedules of an agent. Raises also LimitReached."""
    if len(wanted) > MOST_SCHEDULES:
        raise too_many(field)
    if len({each.name for each in wanted}) < len(wanted):
        raise InvalidInput(f"{field}: two of them have the same name", field=field)
    return [check_wanted(each, at, f"{field}.{place}.") for place, each in enumerate(wanted)]


def too_many(field: str | None = None) -> LimitReached:
    return LimitReached(f"an agent has at most {MOST_SCHEDULES} schedules", field=field)


def check_input(text: str, field: str = "input") -> str:
    """Raises InvalidInput or PayloadTooLarge."""
    if not text.strip() or "\x00" in text:
        raise InvalidInput(f"{field} must be text, and not empty", field=field)
    if len(text) > MAX_INPUT_BYTES or len(text.encode()) > MAX_INPUT_BYTES:
        raise PayloadTooLarge(f"{field} must be at most {MAX_INPUT_BYTES} bytes", field=field)
    return text


def new_schedule(
    id: ScheduleId, agent: tuple[OrgId, AgentId], wanted: WantedSchedule, at: datetime
) -> Schedule:
    return Schedule(
        id,
        *agent,
        name=wanted.name,
        cron=wanted.cron,
        tz=wanted.tz,
        input=wanted.input,
        overlap=wanted.overlap,
        state=ScheduleState.ACTIVE,
        next_fire_at=next_time(wanted.cron, wanted.tz, at),
        created_at=at,
        updated_at=at,
    )


def changed(schedule: Schedule, changes: ScheduleChanges, at: datetime) -> Schedule:
    """Another timing, and going on after a pause, begin to count now: what was missed is not made up.

    Raises InvalidInput, InvalidCron or PayloadTooLarge.
    """
    cron = schedule.cron if changes.cron is None else changes.cron
    tz = changes.tz if changes.given_tz else schedule.tz
    cron, tz = check_timing(cron, tz, at)
    text = schedule.input if changes.input is None else check_input(changes.input)
    after = replace(schedule, cron=cron, tz=tz, input=text, overlap=changes.overlap or schedule.overlap)
    if (cron, tz) != (schedule.cron, schedule.tz):
        after = replace(after, next_fire_at=next_time(cron, tz, at))
    if changes.paused:
        after = replace(after, state=ScheduleState.PAUSED)
    elif changes.paused is False and schedule.state is not ScheduleState.ACTIVE:
        next_fire_at = next_time(cron, tz, at)
        after = replace(after, state=ScheduleState.ACTIVE, next_fire_at=next_fire_at, failures=0)
    return after if after == schedule else replace(after, updated_at=at)


def fired(schedule: Schedule, run_id: ScheduleRunId, at: datetime) -> tuple[Schedule, ScheduleRun]:
    """A due schedule fires: once, however many times were missed, and then at the first time to come."""
    run = ScheduleRun(run_id, schedule.id, schedule.next_fire_at, at)
    try:
        return replace(schedule, next_fire_at=next_time(schedule.cron, schedule.tz, at)), run
    except InvalidCron as error:
        # It was fine when it was made: the zone is not known any more.
        stopped = replace(schedule, state=ScheduleState.AUTO_PAUSED, last_error=error.message, updated_at=at)
        return stopped, run


def settled(schedule: Schedule, run: ScheduleRun, at: datetime) -> Schedule:
    """What a run that is over makes of its schedule."""
    if run.outcome is RunOutcome.SKIPPED:
        return schedule
    by_hand = run.scheduled_for is None
    if run.outcome is RunOutcome.ENACTED:
        after = replace(schedule, last_fired_at=run.fired_at, last_session=run.session_id)
        return after if by_hand else replace(after, failures=0, last_error=None)
    after = replace(schedule, last_error=run.error)
    if by_hand:
        return after
    after = replace(after, failures=schedule.failures + 1)
    if after.failures >= FAILURES_THAT_PAUSE and after.state is ScheduleState.ACTIVE:
        after = replace(after, state=ScheduleState.AUTO_PAUSED, updated_at=at)
    return after


def session_key(run: ScheduleRun) -> str:
    """The key of the session that a run starts: the same whoever starts it, and however often."""
    return f"{run.schedule_id}:{run.id if run.scheduled_for is None else shown(run.scheduled_for)}"


def session_metadata(run: ScheduleRun) -> Mapping[str, Any]:
    slot = None if run.scheduled_for is None else shown(run.scheduled_for)
    return {"schedule": {"id": run.schedule_id, "run_id": run.id, "scheduled_for": slot}}


def session_input(schedule: Schedule) -> NewEvent:
    actor = Actor("trigger", schedule.id, kind="schedule", display=schedule.name)
    return NewEvent(USER_MESSAGE, Level.USER, {"text": schedule.input}, actor, source=SOURCE)


def shown(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
