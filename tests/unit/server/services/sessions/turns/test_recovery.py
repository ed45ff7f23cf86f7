"""What becomes of turns when something breaks: each row of the recovery table (agent-sessions.md 4.9)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from opencomputer.server.contracts.runtimes import BrainNotReady
from opencomputer.server.domain.errors import MachineLost, NoCapacity
from opencomputer.server.domain.sessions import events
from opencomputer.server.domain.sessions.errors import NoCredential
from opencomputer.server.domain.sessions.events import Event
from opencomputer.server.domain.sessions.session import (
    SessionLimits,
    SessionStatus,
    Turn,
    TurnState,
    YieldReason,
)
from tests.support.brain_world import Lines, Work, crashing, done, hanging, text, used
from tests.unit.server.services.sessions.turns.engine_harness import Platform

pytestmark = pytest.mark.anyio


async def the_turn(world: Platform, session_id: Any) -> Turn:
    [turn] = await world.turns(session_id)
    return turn


async def of_type(world: Platform, session_id: Any, type: str) -> list[Event]:
    return [event for event in await world.log(session_id) if event.type == type]


async def test_a_brain_that_crashes_once_is_started_again(world: Platform) -> None:
    world.world.behaviours.append(crashing)
    began = world.clock.monotonic()
    session_id = await world.session("hello")
    async with world.life():
        session = await world.settled(session_id)
    turn = await the_turn(world, session_id)
    assert (turn.attempt, turn.yield_reason, session.status) == (2, YieldReason.COMPLETED, SessionStatus.IDLE)
    assert world.clock.monotonic() - began >= 1
    first, second = world.world.requests
    assert (second.turn_id, list(second.input)) == (first.turn_id, list(first.input))
    assert len(await of_type(world, session_id, events.RUNTIME_RESTARTED)) == 1
    assert await world.said(session_id) == ["hello"]
    await world.check(session_id)


async def test_what_an_attempt_used_that_broke_off_is_not_known_exactly(world: Platform) -> None:
    async def crashing_late(work: Work) -> Lines:
        yield used(5)
        async for line in crashing(work):
            yield line

    world.world.behaviours.append(crashing_late)
    session_id = await world.session()
    async with world.life():
        await world.settled(session_id)
    usage = (await the_turn(world, session_id)).usage
    assert usage is not None
    assert (usage.tokens, usage.complete) == (15, False)


async def test_a_brain_that_crashes_again_and_again_ends_the_turn(world: Platform) -> None:
    world.world.behaviours.extend([crashing] * 3)
    began = world.clock.monotonic()
    session_id = await world.session()
    async with world.life():
        session = await world.settled(session_id)
        turn = await the_turn(world, session_id)
        assert (session.status, turn.state, turn.attempt) == (SessionStatus.FAILED, TurnState.ERROR, 3)
        assert turn.error is not None
        assert turn.error.code == "brain_crashed"
        assert world.clock.monotonic() - began >= 6
        [error] = await of_type(world, session_id, events.ERROR_RUNTIME)
        assert error.body["message"] == "the engine ended"
        await world.steer(session_id, "again")
        assert (await world.settled(session_id)).status is SessionStatus.IDLE
    await world.check(session_id)


@pytest.mark.parametrize("error", [BrainNotReady("no python"), NoCredential()])
async def test_a_brain_that_cannot_start_ends_the_turn_at_once(world: Platform, error: Exception) -> None:
    world.world.boxes_fail.append(error)
    session_id = await world.session()
    async with world.life():
        session = await world.settled(session_id)
    assert (session.status, (await the_turn(world, session_id)).state) == (
        SessionStatus.IDLE,
        TurnState.ERROR,
    )
    assert len(await of_type(world, session_id, events.ERROR_RUNTIME)) == 1
    assert world.world.requests == []
    await world.check(session_id)


async def test_boxes_that_are_never_ready_end_the_turn_after_five_minutes(world: Platform) -> None:
    world.world.box_delay = 1e6
    began = world.clock.monotonic()
    session_id = await world.session()
    async with world.life():
        session = await world.settled(session_id)
    assert 300 <= world.clock.monotonic() - began < 301
    turn = await the_turn(world, session_id)
    assert turn.error is not None
    assert (session.status, turn.error.code) == (
        SessionStatus.IDLE,
        "brain_not_ready",
    )
    await world.check(session_id)


async def test_a_machine_that_cannot_be_had_is_asked_for_again(world: Platform) -> None:
    world.world.boxes_fail.extend([NoCapacity(), MachineLost()])
    session_id = await world.session()
    async with world.life():
        assert (await world.settled(session_id)).status is SessionStatus.IDLE
        world.world.boxes_fail.extend([NoCapacity()] * 3)
        await world.steer(session_id, "again")
        assert (await world.settled(session_id)).status is SessionStatus.FAILED
    await world.check(session_id)


async def test_a_runtime_that_this_server_does_not_have(world: Platform) -> None:
    session_id = await world.session(runtime="gone")
    async with world.life():
        session = await world.settled(session_id)
    turn = await the_turn(world, session_id)
    assert turn.error is not None
    assert (session.status, turn.error.code) == (SessionStatus.IDLE, "unsupported_runtime")
    await world.check(session_id)


async def test_a_brain_that_is_still_busy_gets_time_and_is_killed_then(world: Platform) -> None:
    world.world.stubborn = True
    session_id = await world.session(limits=SessionLimits(turn_seconds=30))
    async with world.life() as life:
        world.world.behaviours.append(hanging)
        await world.until(session_id, events.AGENT_MESSAGE)
        life.die()
    began = world.clock.monotonic()
    async with world.life():
        await world.settled(session_id)
    assert world.clock.monotonic() - began >= 5
    assert "kill" in world.world.did(session_id)
    assert (await the_turn(world, session_id)).yield_reason is YieldReason.COMPLETED
    await world.check(session_id)


async def test_a_brain_that_does_not_answer_any_more_is_restarted(world: Platform) -> None:
    world.world.behaviours.append(hanging)
    session_id = await world.session()
    async with world.life():
        await world.until(session_id, events.AGENT_MESSAGE)
        world.world.processes[session_id].answers = False
        began = world.clock.monotonic()
        await world.settled(session_id)
    assert world.clock.monotonic() - began < 60
    turn = await the_turn(world, session_id)
    assert (turn.attempt, turn.yield_reason) == (2, YieldReason.COMPLETED)


async def test_what_cannot_be_read_of_a_brain_counts_as_a_crash(world: Platform) -> None:
    async def babbling(work: Work) -> Lines:
        yield done("whatever")

    world.world.behaviours.append(babbling)
    session_id = await world.session()
    async with world.life():
        await world.settled(session_id)
    assert (await the_turn(world, session_id)).attempt == 2


async def test_the_next_process_of_a_node_takes_over_at_once(world: Platform) -> None:
    world.world.behaviours.append(hanging)
    session_id = await world.session()
    async with world.life() as life:
        await world.until(session_id, events.AGENT_MESSAGE)
        life.die()
    began = world.clock.monotonic()
    async with world.life():
        session = await world.settled(session_id)
    assert world.clock.monotonic() - began < 5
    turn = await the_turn(world, session_id)
    assert (turn.attempt, turn.yield_reason, session.status) == (2, YieldReason.COMPLETED, SessionStatus.IDLE)
    await world.check(session_id)


async def test_another_node_takes_over_when_the_lease_is_over(world: Platform) -> None:
    world.world.behaviours.append(hanging)
    session_id = await world.session()
    async with world.life("node-1") as life:
        await world.until(session_id, events.AGENT_MESSAGE)
        life.die()
    began = world.clock.monotonic()
    async with world.life("node-2"):
        await world.settled(session_id)
    assert 15 < world.clock.monotonic() - began <= 61
    await world.check(session_id)


async def test_a_node_that_was_cut_off_writes_nothing_any_more(world: Platform) -> None:
    """Its lease runs out while it cannot reach the database; another one takes the turn."""
    go_on = asyncio.Event()

    async def working(work: Work) -> Lines:
        yield text("I begin.")
        await go_on.wait()
        yield text("I was cut off.")
        await work.say("from the grave")
        yield done()

    world.world.behaviours.append(working)
    session_id = await world.session("hello")
    async with world.life("node-1") as cut_off:
        await world.until(session_id, events.AGENT_MESSAGE)
        cut = asyncio.Event()
        cut_off.parts.turns.__dict__["renew"] = _never(cut)
        world.world.processes.clear()
        async with world.life("node-2"):
            await world.settled(session_id)
            go_on.set()
            await asyncio.sleep(60)
    assert await world.said(session_id) == ["hello"]
    assert "I was cut off." not in [event.body.get("text") for event in await world.log(session_id)]
    await world.check(session_id)


def _never(event: asyncio.Event) -> Callable[..., Any]:
    async def wait(*_: Any) -> None:
        await event.wait()

    return wait


async def test_a_tool_call_in_flight_is_told_to_be_unknown(world: Platform) -> None:
    async def deploying(work: Work) -> Lines:
        await work.tool("bash", command="make test")
        await work.tool("bash", command="make deploy")
        yield done()

    world.world.behaviours.append(deploying)
    session_id = await world.session("deploy it")
    async with world.life() as life:

        async def die() -> None:
            life.die()
            await asyncio.Event().wait()

        world.world.commands["make deploy"] = die
        await world.until(session_id, events.TOOL_CALL, 2)
    async with world.life():
        await world.settled(session_id)
    first, notice = world.world.requests[-1].input
    assert first == "deploy it"
    assert notice.startswith("[OpenComputer] ")
    unknown, ended = notice.split("had ended")
    assert "make deploy" in unknown
    assert "make test" in ended
    [told] = list(await of_type(world, session_id, events.TOOL_RESULT))
    assert told.body["unknown"] is True
    await world.check(session_id)


async def test_a_question_that_was_asked_is_not_asked_again(world: Platform) -> None:
    async def asking(work: Work) -> Lines:
        await work.tool("ask", text="Which colour?")
        await asyncio.Event().wait()
        yield done()

    world.world.behaviours.append(asking)
    session_id = await world.session()
    async with world.life() as life:
        await world.until(session_id, events.AGENT_MESSAGE)
        life.die()
    async with world.life():
        session = await world.settled(session_id)
    assert session.status is SessionStatus.AWAITING_INPUT
    assert await world.said(session_id) == ["Which colour?"]
    assert len(world.world.requests) == 1
    await world.check(session_id)


async def test_a_brain_that_crashes_after_its_question_has_asked_it(world: Platform) -> None:
    async def asking(work: Work) -> Lines:
        await work.tool("ask", text="Which colour?")
        async for line in crashing(work):
            yield line

    world.world.behaviours.append(asking)
    session_id = await world.session()
    async with world.life():
        assert (await world.settled(session_id)).status is SessionStatus.AWAITING_INPUT
    assert len(world.world.requests) == 1


async def test_crashes_do_not_move_the_deadline(world: Platform) -> None:
    world.world.behaviours.extend([crashing, hanging])
    began = world.clock.monotonic()
    session_id = await world.session(limits=SessionLimits(turn_seconds=40))
    async with world.life() as life:
        await world.until(session_id, events.AGENT_MESSAGE, 2)
        await asyncio.sleep(10)
        life.die()
    world.world.otherwise = hanging
    async with world.life():
        await world.settled(session_id)
    assert 40 <= world.clock.monotonic() - began < 45
    assert (await the_turn(world, session_id)).yield_reason is YieldReason.DEADLINE_EXCEEDED
    await world.check(session_id)


async def test_a_turn_past_its_deadline_that_nobody_has_is_ended(world: Platform) -> None:
    world.world.behaviours.append(hanging)
    session_id = await world.session(limits=SessionLimits(turn_seconds=40))
    async with world.life() as life:
        await world.until(session_id, events.AGENT_MESSAGE)
        life.die()
    await asyncio.sleep(100)
    async with world.life("node-2"):
        await world.settled(session_id)
    assert (await the_turn(world, session_id)).yield_reason is YieldReason.DEADLINE_EXCEEDED
    assert len(world.world.requests) == 1
    assert "kill" in world.world.did(session_id)
    await world.check(session_id)


async def test_a_node_that_stops_gives_its_turns_back_at_once(world: Platform) -> None:
    world.world.behaviours.append(hanging)
    session_id = await world.session()
    async with world.life("node-1"):
        await world.until(session_id, events.AGENT_MESSAGE)
    began = world.clock.monotonic()
    async with world.life("node-2"):
        await world.settled(session_id)
    assert world.clock.monotonic() - began < 5
    assert (await the_turn(world, session_id)).attempt == 2
    await world.check(session_id)


async def test_a_turn_that_takes_its_node_with_it_each_time_ends(world: Platform) -> None:
    world.world.otherwise = hanging
    session_id = await world.session()
    for count in range(12):
        async with world.life() as life:
            await world.until(session_id, events.AGENT_MESSAGE, count + 1)
            life.die()
    async with world.life():
        session = await world.settled(session_id)
    turn = await the_turn(world, session_id)
    assert turn.error is not None
    assert (session.status, turn.error.code) == (SessionStatus.FAILED, "attempts_exhausted")
    await world.check(session_id)


async def test_writing_waits_for_a_database_that_is_away_for_a_moment(world: Platform) -> None:
    world.world.behaviours.append(hanging)
    session_id = await world.session()
    async with world.life() as life:
        real, failures = life.parts.turns.append, [OSError("gone")] * 5

        async def failing(*args: Any) -> Any:
            if failures:
                raise failures.pop()
            return await real(*args)

        life.parts.turns.__dict__["append"] = failing
        await world.until(session_id, events.AGENT_MESSAGE)
        assert not failures
    async with world.life():
        await world.settled(session_id)
    assert len(await of_type(world, session_id, events.RUNTIME_RESTARTED)) == 0
    await world.check(session_id)
