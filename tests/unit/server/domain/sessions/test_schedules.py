"""What becomes of a schedule when it fires, fails and is edited."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from opencomputer.server.domain.errors import InvalidInput, OpenComputerError
from opencomputer.server.domain.sessions.errors import InvalidCron, LimitReached, PayloadTooLarge
from opencomputer.server.domain.sessions.naming import new_schedule_id, new_schedule_run_id
from opencomputer.server.domain.sessions.schedules import (
    FAILURES_THAT_PAUSE,
    RunOutcome,
    Schedule,
    ScheduleChanges,
    ScheduleState,
    WantedSchedule,
    changed,
    check_wanted,
    check_wanted_all,
    fired,
    new_schedule,
    session_key,
    settled,
)
from opencomputer.wire.ids import AgentId, OrgId, SessionId

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WANTED = WantedSchedule("nightly", "0 3 * * *", None, "Tidy up.")
SESSION = SessionId("ses_1")


def schedule(**changes: object) -> Schedule:
    made = new_schedule(new_schedule_id(), (OrgId("o"), AgentId("agt_1")), WANTED, NOON)
    return replace(made, **changes)  # pyright: ignore[reportArgumentType] # as each test names them


def after(of: Schedule, outcome: RunOutcome, *, by_hand: bool = False) -> Schedule:
    _, run = fired(of, new_schedule_run_id(), NOON)
    failed = outcome is RunOutcome.FAILED
    over = replace(run, outcome=outcome, error="why" if failed else None)
    over = replace(over, session_id=SESSION if outcome is RunOutcome.ENACTED else None)
    return settled(of, replace(over, scheduled_for=None) if by_hand else over, NOON)


def test_however_long_it_was_missed_it_fires_once_for_the_first_time_that_was() -> None:
    of = schedule()
    late = of.next_fire_at + timedelta(days=9, hours=1)
    moved, run = fired(of, new_schedule_run_id(), late)
    assert run.scheduled_for == of.next_fire_at
    assert moved.next_fire_at == of.next_fire_at + timedelta(days=10)
    assert session_key(run) == f"{of.id}:2026-01-02T03:00:00Z"


def test_five_failures_in_a_row_pause_it() -> None:
    of = schedule()
    for count in range(1, FAILURES_THAT_PAUSE):
        of = after(of, RunOutcome.FAILED)
        assert (of.failures, of.state, of.last_error) == (count, ScheduleState.ACTIVE, "why")
    assert after(of, RunOutcome.ENACTED).failures == 0
    assert after(of, RunOutcome.SKIPPED) == of
    paused = after(of, RunOutcome.FAILED)
    assert (paused.failures, paused.state) == (FAILURES_THAT_PAUSE, ScheduleState.AUTO_PAUSED)
    on = changed(paused, ScheduleChanges(paused=False), NOON + timedelta(days=30))
    assert (on.failures, on.state, on.next_fire_at.day) == (0, ScheduleState.ACTIVE, 1)
    assert on.next_fire_at > NOON + timedelta(days=30)


def test_a_firing_by_hand_changes_neither_state_nor_counter() -> None:
    of = schedule(failures=4, state=ScheduleState.PAUSED)
    assert after(of, RunOutcome.FAILED, by_hand=True) == replace(of, last_error="why")
    enacted = after(of, RunOutcome.ENACTED, by_hand=True)
    assert enacted == replace(of, last_fired_at=NOON, last_session=SESSION)


def test_another_timing_counts_from_now_and_nothing_else_moves_it() -> None:
    of, later = schedule(), NOON + timedelta(days=3)
    moved = changed(of, ScheduleChanges(cron="0 4 * * *"), later)
    assert moved.next_fire_at == datetime(2026, 1, 5, 4, tzinfo=UTC)
    zoned = changed(of, ScheduleChanges(tz="Asia/Tokyo", given_tz=True), later)
    assert zoned.next_fire_at == datetime(2026, 1, 4, 18, tzinfo=UTC)
    assert changed(zoned, ScheduleChanges(given_tz=True), later).tz is None
    same = changed(of, ScheduleChanges(input="Else.", cron="0  3 * * *"), later)
    assert same.next_fire_at == of.next_fire_at
    assert changed(of, ScheduleChanges(paused=False), later) == of
    paused = changed(of, ScheduleChanges(paused=True), later)
    assert (paused.state, paused.next_fire_at) == (ScheduleState.PAUSED, of.next_fire_at)


def test_a_zone_that_is_not_known_any_more_pauses_it() -> None:
    stopped, run = fired(schedule(tz="Gone/Away"), new_schedule_run_id(), NOON)
    assert stopped.state is ScheduleState.AUTO_PAUSED
    assert stopped.last_error
    assert run.scheduled_for == stopped.next_fire_at


@pytest.mark.parametrize(
    ("change", "error", "field"),
    [
        ({"name": "Nightly"}, InvalidInput, "name"),
        ({"name": "-n"}, InvalidInput, "name"),
        ({"name": "sch_1"}, InvalidInput, "name"),
        ({"name": "a" * 65}, InvalidInput, "name"),
        ({"input": " "}, InvalidInput, "input"),
        ({"input": "a\x00"}, InvalidInput, "input"),
        ({"input": "ä" * (16 << 10) + "a"}, PayloadTooLarge, "input"),
        ({"cron": "0 0 1 1 1 1"}, InvalidCron, "cron"),
    ],
)
def test_what_is_wrong_is_refused(change: dict[str, str], error: type[OpenComputerError], field: str) -> None:
    with pytest.raises(error) as refused:
        check_wanted(replace(WANTED, **change), NOON)  # pyright: ignore[reportArgumentType] # texts all
    assert refused.value.details["field"] == field


def test_of_many_no_two_have_one_name_and_there_are_not_more_than_twenty() -> None:
    many = [replace(WANTED, name=f"n{number}") for number in range(20)]
    assert check_wanted_all(many, NOON, "schedules") == many
    with pytest.raises(LimitReached):
        check_wanted_all([*many, WANTED], NOON, "schedules")
    with pytest.raises(InvalidInput):
        check_wanted_all([WANTED, WANTED], NOON, "schedules")
    with pytest.raises(InvalidCron) as refused:
        check_wanted_all([*many[:2], replace(WANTED, cron="x")], NOON, "schedules")
    assert refused.value.details == {"field": "schedules.2.cron"}
