"""Sessions that are canceled, archived, or have nothing to do (agent-sessions.md sections 4.8, 4.10)."""

from __future__ import annotations

import asyncio

import pytest

from opencomputer.server.domain.sessions import events
from opencomputer.server.domain.sessions.session import Session, SessionStatus, YieldReason
from opencomputer.wire.ids import SessionId
from tests.support.brain_world import Lines, Work, crashing, done, hanging, text, used
from tests.unit.server.services.sessions.turns.engine_harness import Platform

pytestmark = pytest.mark.anyio


async def cancel(world: Platform, session_id: SessionId) -> Session:
    await world.tables.sessions.request_cancel(session_id, world.clock.now())
    return await world.settled(session_id)


async def ended_as(world: Platform, session_id: SessionId) -> YieldReason | None:
    session = await world.get(session_id)
    return session.last_turn.yield_reason if session.last_turn is not None else None


async def test_a_turn_that_only_waits_is_canceled_at_once(world: Platform) -> None:
    session_id = await world.session()
    assert (await cancel(world, session_id)).status is SessionStatus.IDLE
    async with world.life():
        await asyncio.sleep(60)
    assert world.world.requests == []
    await world.check(session_id)


async def test_cancel_while_the_boxes_are_made(world: Platform) -> None:
    world.world.box_delay = 100
    session_id = await world.session()
    async with world.life():
        await asyncio.sleep(3)
        began = world.clock.monotonic()
        assert (await cancel(world, session_id)).status is SessionStatus.IDLE
        assert world.clock.monotonic() - began < 1
    assert await ended_as(world, session_id) is YieldReason.CANCELED
    await world.check(session_id)


async def test_cancel_while_the_brain_works(world: Platform) -> None:
    async def expensive(work: Work) -> Lines:
        yield used(7)
        async for line in hanging(work):
            yield line

    world.world.behaviours.append(expensive)
    session_id = await world.session()
    async with world.life():
        await world.until(session_id, events.AGENT_MESSAGE)
        began = world.clock.monotonic()
        session = await cancel(world, session_id)
        assert world.clock.monotonic() - began < 1
        assert session.status is SessionStatus.IDLE
        assert session.input_cursor == 1
        assert session.usage.totals is not None
        assert (session.usage.totals.tokens, session.usage.totals.complete) == (7, False)
        assert "kill" not in world.world.did(session_id)
        await world.steer(session_id, "go on")
        await world.settled(session_id)
    assert world.world.requests[-1].resume, "what was canceled is remembered"
    await world.check(session_id)


async def test_cancel_of_a_brain_that_does_not_listen(world: Platform) -> None:
    world.world.stubborn = True
    world.world.behaviours.append(hanging)
    session_id = await world.session()
    async with world.life():
        await world.until(session_id, events.AGENT_MESSAGE)
        began = world.clock.monotonic()
        await cancel(world, session_id)
        assert 5 <= world.clock.monotonic() - began < 6
    assert "kill" in world.world.did(session_id)
    assert await ended_as(world, session_id) is YieldReason.CANCELED
    await world.check(session_id)


async def test_cancel_during_a_tool_call(world: Platform) -> None:
    async def working(work: Work) -> Lines:
        await work.tool("bash", command="sleep")
        yield done()

    world.world.commands["sleep"] = asyncio.Event().wait
    world.world.behaviours.append(working)
    session_id = await world.session()
    async with world.life():
        await world.until(session_id, events.TOOL_CALL)
        await cancel(world, session_id)
    log = await world.log(session_id)
    [result] = [event for event in log if event.type == events.TOOL_RESULT]
    assert result.body["unknown"] is True
    assert await ended_as(world, session_id) is YieldReason.CANCELED
    await world.check(session_id)


async def test_cancel_between_two_attempts(world: Platform) -> None:
    world.world.behaviours.extend([crashing, crashing])
    session_id = await world.session()
    async with world.life():
        await world.until(session_id, events.RUNTIME_RESTARTED, 2)
        await cancel(world, session_id)
    assert await ended_as(world, session_id) is YieldReason.CANCELED
    assert len(world.world.requests) == 2
    await world.check(session_id)


async def test_cancel_of_a_turn_whose_owner_is_dead(world: Platform) -> None:
    world.world.behaviours.append(hanging)
    session_id = await world.session()
    async with world.life() as life:
        await world.until(session_id, events.AGENT_MESSAGE)
        life.die()
    await world.tables.sessions.request_cancel(session_id, world.clock.now())
    async with world.life("node-2"):
        await world.settled(session_id)
    assert await ended_as(world, session_id) is YieldReason.CANCELED
    assert len(world.world.requests) == 1
    assert "kill" in world.world.did(session_id)
    await world.check(session_id)


async def test_cancel_without_a_hint_is_seen_at_the_next_renewal(world: Platform) -> None:
    world.world.behaviours.append(hanging)
    session_id = await world.session()
    async with world.life():
        await world.until(session_id, events.AGENT_MESSAGE)
        world.signals.canceled = lambda session_id: None  # pyright: ignore[reportAttributeAccessIssue] - a test's
        began = world.clock.monotonic()
        await cancel(world, session_id)
        assert world.clock.monotonic() - began <= 11
    await world.check(session_id)


async def test_cancel_of_an_idle_session_changes_nothing(world: Platform) -> None:
    session_id = await world.session()
    async with world.life():
        before = await world.settled(session_id)
        assert (await cancel(world, session_id)).head == before.head
        await world.steer(session_id, "again")
        await world.settled(session_id)
    assert await ended_as(world, session_id) is YieldReason.COMPLETED


async def test_what_waits_runs_after_a_cancel(world: Platform) -> None:
    world.world.behaviours.append(hanging)
    session_id = await world.session("one")
    async with world.life():
        await world.until(session_id, events.AGENT_MESSAGE)
        await world.steer(session_id, "two")
        await cancel(world, session_id)
    first, second = await world.turns(session_id)
    assert (first.yield_reason, second.yield_reason) == (YieldReason.CANCELED, YieldReason.COMPLETED)
    assert list(world.world.requests[-1].input) == ["two"]
    await world.check(session_id)


async def test_archive_while_a_turn_runs(world: Platform) -> None:
    async def ignoring(work: Work) -> Lines:
        yield text("I begin.")
        await asyncio.sleep(5)
        yield text("I go on.")
        await asyncio.sleep(500)
        yield done()

    world.world.behaviours.append(ignoring)
    session_id = await world.session()
    async with world.life():
        await world.until(session_id, events.AGENT_MESSAGE)
        archived = await world.tables.sessions.archive(session_id, world.clock.now())
        await asyncio.sleep(120)
    session = await world.get(session_id)
    assert (session.status, session.head) == (SessionStatus.ARCHIVED, archived.head)
    assert await ended_as(world, session_id) is YieldReason.CANCELED
    assert world.world.did(session_id)[-1] == "destroy"
    assert session.boxes.brain is None
    [turn] = await world.turns(session_id)
    own = [event.type for event in await world.log(session_id) if event.turn_id == turn.id]
    assert own[-1] == events.TURN_COMPLETED


async def test_boxes_rest_a_minute_after_the_turn(world: Platform) -> None:
    session_id = await world.session()
    async with world.life():
        await world.settled(session_id)
        await asyncio.sleep(55)
        assert "rest" not in world.world.did(session_id)
        await asyncio.sleep(15)
        assert world.world.did(session_id).count("rest") == 1
        await asyncio.sleep(300)
        assert world.world.did(session_id).count("rest") == 1, "they sleep already"
        await world.steer(session_id, "again")
        await world.settled(session_id)
        await asyncio.sleep(70)
        assert world.world.did(session_id).count("rest") == 2


async def test_boxes_do_not_rest_while_a_turn_runs(world: Platform) -> None:
    world.world.behaviours.append(hanging)
    session_id = await world.session()
    async with world.life():
        await asyncio.sleep(600)
        assert "rest" not in world.world.did(session_id)


async def test_a_message_that_comes_while_boxes_go_to_rest_is_answered_after_that(world: Platform) -> None:
    world.world.resting = 3
    session_id = await world.session()
    async with world.life():
        await world.settled(session_id)
        await asyncio.sleep(62)
        assert "rest" in world.world.did(session_id)
        await world.steer(session_id, "again")
        began = world.clock.monotonic()
        await world.settled(session_id)
        assert world.clock.monotonic() - began < 4
        await asyncio.sleep(70)
        assert world.world.did(session_id).count("rest") == 2


async def test_boxes_that_do_not_go_to_rest_are_tried_again_later(world: Platform) -> None:
    world.world.rest_fails = 2
    session_id = await world.session()
    async with world.life():
        await world.settled(session_id)
        await asyncio.sleep(600)
    assert world.world.did(session_id).count("rest") == 3
