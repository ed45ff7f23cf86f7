"""Schedules fire on time and once, whoever dies, and say what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from opencomputer.server.contracts.starters import FiringStore, Hold
from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sessions.agents import Agent
from opencomputer.server.domain.sessions.errors import LimitReached, NameTaken
from opencomputer.server.domain.sessions.schedules import (
    Overlap,
    RunOutcome,
    Schedule,
    ScheduleChanges,
    ScheduleState,
    WantedSchedule,
)
from opencomputer.server.domain.sessions.session import SessionStatus
from opencomputer.server.services.sessions.deployments import InlineDeployment
from opencomputer.server.stores.sql.database import Database
from tests.support.agents import SOMEBODY
from tests.support.starter_world import StarterWorld

pytestmark = pytest.mark.anyio

HOLD_SECONDS = 121


async def test_a_schedule_starts_a_session_that_says_where_it_comes_from(starters: StarterWorld) -> None:
    agent = await starters.agent()
    of = await starters.schedule(agent)
    await starters.at(of.next_fire_at - timedelta(seconds=1))
    assert await starters.started(agent) == []
    await starters.at(of.next_fire_at)
    [session] = await starters.started(agent)
    [run] = await starters.runs(of)
    slot = of.next_fire_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert (run.outcome, run.session_id, run.scheduled_for) == (
        RunOutcome.ENACTED,
        session.id,
        of.next_fire_at,
    )
    assert session.key == f"{of.id}:{slot}"
    assert session.metadata == {"schedule": {"id": of.id, "run_id": run.id, "scheduled_for": slot}}
    event = await starters.first_event(session)
    assert (event.type, event.body, event.source) == ("user.message", {"text": "Go."}, "schedule")
    assert (event.actor.type, event.actor.kind, event.actor.id) == ("trigger", "schedule", of.id)
    assert event.actor.display == "hourly"
    now = await starters.schedules.get(agent, of.id)
    assert (now.next_fire_at, now.last_fired_at) == (of.next_fire_at + timedelta(hours=1), run.fired_at)
    await starters.scheduler.fire_due()
    assert len(await starters.started(agent)) == 1


async def test_after_a_pause_of_the_server_it_fires_once(starters: StarterWorld) -> None:
    agent = await starters.agent()
    of = await starters.schedule(agent)
    await starters.at(of.next_fire_at + timedelta(hours=5, minutes=10))
    [run] = await starters.runs(of)
    assert run.scheduled_for == of.next_fire_at
    await starters.after(minutes=49)
    assert len(await starters.runs(of)) == 1
    await starters.after(minutes=1)
    assert len(await starters.runs(of)) == 2


async def test_it_waits_for_the_session_before_it_unless_it_may_overlap(starters: StarterWorld) -> None:
    agent = await starters.agent()
    of = await starters.schedule(agent, overlap=Overlap.SKIP)
    await starters.at(of.next_fire_at)
    await starters.after(hours=1)
    skipped, enacted = await starters.runs(of)
    assert (skipped.outcome, skipped.session_id) == (RunOutcome.SKIPPED, None)
    await starters.sessions.archive(agent.org_id, (await starters.started(agent))[0].id)
    await starters.after(hours=1)
    assert [each.outcome for each in await starters.runs(of)] == ["enacted", "skipped", "enacted"]
    # By hand it starts whatever still works.
    assert (await starters.schedules.fire(agent, of.id)).outcome is RunOutcome.ENACTED
    await starters.schedules.update(agent, of.id, ScheduleChanges(overlap=Overlap.ALLOW))
    await starters.after(hours=1)
    assert (await starters.runs(of))[0].outcome is RunOutcome.ENACTED
    assert enacted.outcome is RunOutcome.ENACTED


async def test_five_failures_pause_it_and_resuming_counts_from_now(starters: StarterWorld) -> None:
    agent = await starters.agent()
    of = await starters.schedule(agent)
    starters.agents.models.providers = frozenset()
    for _ in range(7):
        await starters.after(hours=1)
    paused = await starters.schedules.get(agent, of.id)
    assert (paused.state, paused.failures) == (ScheduleState.AUTO_PAUSED, 5)
    runs = await starters.runs(of)
    assert [each.outcome for each in runs] == ["failed"] * 5
    assert paused.last_error == runs[0].error
    assert paused.last_error
    assert "credential" in paused.last_error
    by_hand = await starters.schedules.fire(agent, of.id)
    assert (by_hand.outcome, by_hand.scheduled_for) == (RunOutcome.FAILED, None)
    assert await starters.schedules.get(agent, of.id) == paused
    starters.agents.models.providers = frozenset({"anthropic"})
    assert (await starters.schedules.fire(agent, of.id)).outcome is RunOutcome.ENACTED
    assert (await starters.schedules.get(agent, of.id)).state is ScheduleState.AUTO_PAUSED
    on = await starters.schedules.update(agent, of.id, ScheduleChanges(paused=False))
    assert (on.failures, on.state) == (0, ScheduleState.ACTIVE)
    assert starters.clock.now() < on.next_fire_at <= starters.clock.now() + timedelta(hours=1)


async def test_what_is_paused_deleted_or_of_a_deleted_agent_fires_no_more(starters: StarterWorld) -> None:
    agent, other = await starters.agent(), await starters.agent()
    paused = await starters.schedule(agent, name="paused")
    deleted = await starters.schedule(agent, name="deleted")
    orphan = await starters.schedule(other)
    await starters.at(deleted.next_fire_at)
    await starters.schedules.update(agent, paused.id, ScheduleChanges(paused=True))
    await starters.schedules.delete(agent, deleted.id)
    await starters.agents.agents.delete(starters.agents.org, other.id)
    await starters.after(hours=3)
    for each in (paused, deleted, orphan):
        assert len(await starters.runs(each)) == 1
    assert await starters.starters.firings.next_due() is None
    with pytest.raises(NotFound):
        await starters.schedules.get(agent, deleted.id)
    with pytest.raises(NotFound):
        await starters.schedules.delete(agent, deleted.id)
    assert await starters.schedules.of_runs(agent, deleted.id) == deleted.id
    assert (await starters.schedule(agent, name="deleted")).id != deleted.id


async def test_an_agent_has_twenty_schedules_of_different_names(starters: StarterWorld) -> None:
    agent = await starters.agent()
    made = [await starters.schedule(agent, name=f"n{number}") for number in range(20)]
    with pytest.raises(LimitReached):
        await starters.schedule(agent, name="more")
    await starters.schedules.delete(agent, made[3].id)
    with pytest.raises(NameTaken):
        await starters.schedule(agent, name="n4")
    await starters.schedule(agent, name="n3")
    assert len(await starters.schedules.list(agent)) == 20


class Killed(BaseException):
    """The process is dead, as by SIGKILL."""


class Dying:
    """A FiringStore, or a service, on which nothing more is done before or after `step`."""

    def __init__(self, real: Any, step: str, *, done: bool) -> None:
        self._real, self.step, self._done = real, step, done

    def __getattr__(self, name: str) -> Any:
        if name != self.step:
            return getattr(self._real, name)

        async def die(*args: Any, **named: Any) -> None:
            if self._done:
                await getattr(self._real, name)(*args, **named)
            raise Killed

        return die


STEPS = [
    *(("store", step, done) for step in ("claim", "settle") for done in (False, True)),
    *(("sessions", "create", done) for done in (False, True)),
]


@pytest.mark.parametrize("by_hand", [False, True])
async def test_killed_anywhere_it_comes_to_one_session_and_one_run(
    starters: StarterWorld, by_hand: bool
) -> None:
    for same_node in (True, False):
        for part, step, done in STEPS:
            named_step = "begin" if by_hand and step == "claim" else step
            agent = await starters.agent()
            of = await starters.schedule(agent)
            await killed(starters, of, Dying(_part(starters, part), named_step, done=done), by_hand=by_hand)
            # What is edited in between does not make it another session.
            await starters.schedules.update(agent, of.id, ScheduleChanges(input="Something else."))
            next_life = starters.another("here" if same_node else "there")
            if not same_node:
                starters.clock.advance(HOLD_SECONDS)
            await next_life.scheduler.take_over()
            await next_life.scheduler.fire_due()
            # A request of which nothing was written never was.
            count = 0 if named_step == "begin" and not done else 1
            sessions, runs = await starters.started(agent), await starters.runs(of)
            assert len(sessions) == len(runs) == count, (part, named_step, done, same_node)
            assert [each.session_id for each in runs] == [each.id for each in sessions]
            assert (await starters.schedules.get(agent, of.id)).next_fire_at > starters.clock.now()
            await starters.schedules.delete(agent, of.id)


def _part(starters: StarterWorld, name: str) -> object:
    return starters.starters.firings if name == "store" else starters.sessions


async def killed(starters: StarterWorld, of: Schedule, dying: Dying, *, by_hand: bool) -> None:
    """A life of the node that fires this schedule, and ends there."""
    doomed = starters.another("here")
    if dying.step == "create":
        doomed.sessions = dying  # pyright: ignore[reportAttributeAccessIssue]
        scheduler = doomed.scheduler_on(doomed.starters.firings)
    else:
        scheduler = doomed.scheduler_on(_store(dying))
    starters.set(of.next_fire_at - timedelta(minutes=3) if by_hand else of.next_fire_at)
    with pytest.raises(Killed):
        await (scheduler.fire(of) if by_hand else scheduler.fire_due())


def _store(dying: Any) -> FiringStore:
    return dying


async def test_what_fails_without_a_reason_is_tried_again_and_given_up_in_the_end(
    starters: StarterWorld,
) -> None:
    agent = await starters.agent()
    of = await starters.schedule(agent, cron="0 0 1 1 *")
    broken = starters.another("here")
    broken.sessions = Failing()  # pyright: ignore[reportAttributeAccessIssue]
    scheduler = broken.scheduler_on(broken.starters.firings)
    starters.set(of.next_fire_at)
    await scheduler.fire_due()
    starters.clock.advance(HOLD_SECONDS)
    await scheduler.fire_due()
    assert await starters.runs(of) == []
    starters.clock.advance(3600)
    await scheduler.fire_due()
    [run] = await starters.runs(of)
    assert (run.outcome, run.error) == (RunOutcome.FAILED, "the server failed")


class Failing:
    """In the place of DurableSessions."""

    async def create(self, *_: Any) -> None:
        raise OSError("something is broken")


async def test_another_nodes_work_is_left_to_it_for_as_long_as_it_may_live(starters: StarterWorld) -> None:
    agent = await starters.agent()
    of = await starters.schedule(agent)
    starters.set(of.next_fire_at)
    doomed = starters.scheduler_on(_store(Dying(starters.starters.firings, "settle", done=False)))
    with pytest.raises(Killed):
        await doomed.fire_due()
    other = starters.another()
    await other.scheduler.fire_due()
    assert await starters.runs(of) == []
    starters.clock.advance(HOLD_SECONDS)
    await other.scheduler.fire_due()
    assert [each.outcome for each in await starters.runs(of)] == ["enacted"]
    assert len(await starters.started(agent)) == 1


@pytest.fixture
async def nodes(starters: StarterWorld) -> AsyncGenerator[list[StarterWorld]]:
    """Each has connections and a queue of writers of its own, as another process has."""
    database = Database.sqlite(starters.file)
    await database.open()
    yield [starters, starters.another("there", database)]
    await database.close()


async def test_nodes_on_one_database_fire_everything_once(nodes: list[StarterWorld]) -> None:
    agent = await nodes[0].agent()
    made = [await nodes[0].schedule(agent, name=f"n{number}") for number in range(12)]
    nodes[0].set(made[0].next_fire_at)
    await asyncio.gather(*(each.scheduler.fire_due() for each in nodes * 2))
    assert len(await nodes[1].started(agent)) == 12
    for of in made:
        assert [each.outcome for each in await nodes[1].runs(of)] == ["enacted"]


async def test_a_clock_that_is_set_back_fires_nothing_twice(starters: StarterWorld) -> None:
    agent = await starters.agent()
    of = await starters.schedule(agent)
    await starters.at(of.next_fire_at)
    starters.clock.advance(-600)
    await starters.schedules.update(agent, of.id, ScheduleChanges(paused=True))
    again = await starters.schedules.update(agent, of.id, ScheduleChanges(paused=False))
    assert again.next_fire_at == of.next_fire_at
    await starters.at(again.next_fire_at)
    assert len(await starters.runs(of)) == 1
    await starters.after(hours=1)
    assert len(await starters.runs(of)) == 2


async def test_only_so_many_runs_are_kept(starters: StarterWorld) -> None:
    agent = await starters.agent()
    of = await starters.schedule(agent)
    await starters.at(of.next_fire_at)
    [first] = await starters.runs(of)
    for number in range(3):
        later = replace(first, id=type(first.id)(f"srn_{number}"), scheduled_for=None)
        later = replace(later, outcome=None, fired_at=first.fired_at + timedelta(seconds=number + 1))
        await starters.starters.firings.begin(later, Hold("me", starters.clock.now()))
        over = replace(later, outcome=RunOutcome.SKIPPED)
        await starters.starters.firings.settle(over, over.fired_at, keep=2)
    assert [each.id for each in await starters.runs(of)] == ["srn_2", "srn_1"]
    [oldest] = await starters.schedules.runs(of.id, 9, await starters.schedules.run(of.id, "srn_2"))
    assert oldest.id == "srn_1"


async def deploy(starters: StarterWorld, agent: Agent, *wanted: WantedSchedule, **how: Any) -> None:
    deployment = InlineDeployment("Be brief.", schedules=wanted, **how)
    await starters.agents.deployments.deploy(starters.agents.org, agent.id, SOMEBODY, deployment)


def named(found: list[Schedule], name: str) -> Schedule:
    return next(each for each in found if each.name == name)


async def test_a_deployment_has_all_of_an_agents_schedules(starters: StarterWorld) -> None:
    agent = await starters.agent()
    kept = await starters.schedule(agent, name="kept")
    gone = await starters.schedule(agent, name="gone")
    await starters.schedules.update(agent, kept.id, ScheduleChanges(paused=True))
    one, two = (WantedSchedule(name, "30 5 * * *", "Asia/Tokyo", "Hi.") for name in ("kept", "new"))
    await deploy(starters, agent, one, activate=False)
    assert len(await starters.schedules.list(agent)) == 2
    await deploy(starters, agent, one, two)
    found = list(await starters.schedules.list(agent))
    assert {each.name for each in found} == {"kept", "new"}
    changed = named(found, "kept")
    assert (changed.id, changed.state, changed.cron) == (kept.id, ScheduleState.PAUSED, "30 5 * * *")
    await deploy(starters, agent, two, one)
    assert list(await starters.schedules.list(agent)) == found
    await starters.agents.deployments.deploy(
        starters.agents.org, agent.id, SOMEBODY, InlineDeployment("No schedules named.")
    )
    assert list(await starters.schedules.list(agent)) == found
    await deploy(starters, agent)
    assert await starters.schedules.list(agent) == []
    assert gone.id


async def test_what_a_schedule_started_is_an_ordinary_session(starters: StarterWorld) -> None:
    agent = await starters.agent()
    run = await starters.schedules.fire(agent, (await starters.schedule(agent)).id)
    assert run.session_id is not None
    session = await starters.sessions.get(agent.org_id, run.session_id)
    assert session.status is SessionStatus.QUEUED
    assert session.key == f"{run.schedule_id}:{run.id}"
