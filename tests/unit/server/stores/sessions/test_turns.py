"""One writer at a time, and what it may write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from opencomputer.server.contracts.sessions import Fenced
from opencomputer.server.domain.sessions.naming import new_session_id
from opencomputer.server.domain.sessions.session import (
    Boxes,
    Claim,
    Completion,
    SessionStatus,
    TurnError,
    TurnState,
    Usage,
    YieldReason,
)
from opencomputer.wire.ids import SandboxId
from tests.support import session_rows as new
from tests.unit.server.stores.sessions.conftest import Node

pytestmark = pytest.mark.anyio

_USED = Usage(input_tokens=3, output_tokens=4, cache_read_input_tokens=5, cost_usd=0.5)


async def test_a_claim_holds_until_its_lease_is_over(node: Node) -> None:
    session, turns = await node.admit(), node.tables.turns
    assert await turns.claimable(new.at(), limit=9) == [session.id]
    first = await turns.claim(session.id, "a", new.at(), new.at(30))
    assert first is not None
    assert (first.epoch, first.attempt, first.owner) == (1, 1, "a")
    assert await turns.claimable(new.at(29), limit=9) == []
    assert await turns.claim(session.id, "b", new.at(29), new.at(60)) is None
    assert await turns.claimable(new.at(30), limit=9) == [session.id]
    second = await turns.claim(session.id, "b", new.at(30), new.at(60))
    assert second is not None
    assert (second.turn_id, second.epoch, second.attempt) == (first.turn_id, 2, 2)
    assert await turns.claim(new_session_id(), "a", new.at(), new.at(30)) is None


async def test_accepted_then_running(node: Node) -> None:
    session = await node.admit()
    claim = await node.claimed(session.id)
    accepted = await node.session(session.id)
    assert accepted.status is SessionStatus.QUEUED
    assert accepted.last_turn is not None
    assert (accepted.last_turn.state, accepted.last_turn.claimed_at) == (TurnState.ACCEPTED, new.at(1))
    turn = await node.tables.turns.begin(claim, new.at(2), new.at(100))
    assert (turn.state, turn.started_at, turn.deadline_at) == (TurnState.RUNNING, new.at(2), new.at(100))
    assert (await node.events(session.id))[-1].body == {
        "turn_id": turn.id,
        "input_from_seq": 1,
        "input_to_seq": 1,
    }
    assert (await node.session(session.id)).status is SessionStatus.RUNNING


async def test_another_attempt_keeps_the_start_and_the_deadline(node: Node) -> None:
    session = await node.admit()
    claim = await node.running(session.id)
    claim = await node.tables.turns.retry(claim)
    assert (claim.attempt, claim.epoch) == (2, 2)
    again = await node.tables.turns.begin(claim, new.at(50), new.at(9000))
    assert (again.started_at, again.deadline_at, again.attempt) == (new.at(1), new.at(1801), 2)
    assert (await node.types(session.id)).count("turn.started") == 1


async def _renew(node: Node, claim: Claim) -> object:
    return await node.tables.turns.renew(claim, new.at(99))


async def _begin(node: Node, claim: Claim) -> object:
    return await node.tables.turns.begin(claim, new.at(2), new.at(99))


async def _retry(node: Node, claim: Claim) -> object:
    return await node.tables.turns.retry(claim)


async def _append(node: Node, claim: Claim) -> object:
    return await node.tables.turns.append(claim, [new.said()], new.at(2))


async def _keys(node: Node, claim: Claim) -> object:
    return await node.tables.turns.keys(claim, "")


async def _count(node: Node, claim: Claim) -> object:
    return await node.tables.turns.count_run(claim)


async def _complete(node: Node, claim: Claim) -> object:
    return await node.complete(claim)


_WRITES = [_renew, _begin, _retry, _append, _keys, _count, _complete]


@pytest.mark.parametrize("write", _WRITES)
async def test_whoever_lost_its_claim_writes_nothing(
    node: Node, write: Callable[[Node, Claim], Awaitable[object]]
) -> None:
    session = await node.admit()
    claim = await node.running(session.id)
    held = await node.tables.turns.claim(session.id, "other", new.at(40), new.at(70))
    assert held is not None
    before = await node.session(session.id)
    stale = [claim, replace(held, epoch=held.epoch + 1), replace(held, owner="me")]
    for each in [*stale, replace(claim, session_id=new_session_id())]:
        with pytest.raises(Fenced):
            await write(node, each)
    await node.tables.turns.release(claim)
    assert await node.session(session.id) == before
    assert await node.tables.turns.claimable(new.at(50), limit=9) == []


@pytest.mark.parametrize("write", _WRITES)
async def test_a_turn_that_has_ended_takes_nothing_more(
    node: Node, write: Callable[[Node, Claim], Awaitable[object]]
) -> None:
    session = await node.admit()
    claim = await node.running(session.id)
    before = await node.complete(claim)
    with pytest.raises(Fenced):
        await write(node, claim)
    assert await node.session(session.id) == before


async def test_a_key_is_written_once(node: Node) -> None:
    session = await node.admit()
    claim = await node.running(session.id)
    first = await node.tables.turns.append(claim, [new.said("1", key="a"), new.said("2", key="b")], new.at(2))
    second = await node.tables.turns.append(
        claim, [new.said("x", key="b"), new.said("3", key="c"), new.said("y", key="c")], new.at(3)
    )
    assert [event.seq for event in first] == [3, 4]
    assert [event.seq for event in second] == [4, 5, 5]
    assert second[0] == first[1]
    assert await node.tables.turns.keys(claim, "") == ["a", "b", "c"]
    assert {event.turn_id for event in second} == {claim.turn_id}


async def test_completing_settles_everything(node: Node) -> None:
    session = await node.admit()
    claim = await node.running(session.id)
    await node.tables.turns.append(claim, [new.said("early")], new.at(2))
    ended = await node.complete(
        claim, YieldReason.NEEDS_INPUT, [new.said("which?", key="last")], usage=_USED, state_kept=True
    )
    assert (ended.status, ended.input_cursor, ended.head) == (SessionStatus.AWAITING_INPUT, 1, 5)
    assert (ended.usage.active_ms, ended.usage.reported_turns, ended.usage.totals) == (2000, 1, _USED)
    assert ended.resume_from == claim.turn_id
    log = await node.events(session.id)
    turn = ended.last_turn
    assert turn is not None
    assert (turn.state, turn.completed_at, turn.active_ms) == (TurnState.OK, new.at(3), 2000)
    assert (turn.usage, turn.state_kept) == (_USED, True)
    assert turn.result_event_id == log[3].id
    assert log[-1].body == {
        "turn_id": claim.turn_id,
        "outcome": "needs_input",
        "yield_reason": "needs_input",
        "active_seconds": 2.0,
        "result_event_id": log[3].id,
        "usage": {
            "reported": True,
            "input_tokens": 3,
            "output_tokens": 4,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 5,
            "tokens": 12,
            "total_cost_usd": 0.5,
        },
    }
    assert await node.session(session.id) == ended


@pytest.mark.parametrize(
    ("reason", "failed", "more", "status"),
    [
        (YieldReason.COMPLETED, False, False, SessionStatus.IDLE),
        (YieldReason.ERROR, False, False, SessionStatus.IDLE),
        (YieldReason.ERROR, True, False, SessionStatus.FAILED),
        (YieldReason.NEEDS_INPUT, False, False, SessionStatus.AWAITING_INPUT),
        (YieldReason.CANCELED, False, False, SessionStatus.IDLE),
        (YieldReason.NEEDS_INPUT, False, True, SessionStatus.QUEUED),
        (YieldReason.ERROR, True, True, SessionStatus.QUEUED),
    ],
)
async def test_where_a_session_is_after_a_turn(
    node: Node, reason: YieldReason, failed: bool, more: bool, status: SessionStatus
) -> None:
    session = await node.admit()
    claim = await node.running(session.id)
    if more:
        await node.say(session.id)
    error = (
        TurnError("provision_infra", "no machine", retriable=True) if reason is YieldReason.ERROR else None
    )
    ended = await node.complete(claim, reason, failed=failed, error=error)
    assert ended.status is status
    ran = await node.tables.sessions.turn(session.id, claim.turn_id)
    assert ran is not None
    assert (ran.state, ran.error) == (TurnState.ERROR if error else TurnState.OK, error)
    assert await node.tables.turns.claimable(new.at(4), limit=9) == ([session.id] if more else [])


async def test_a_turn_may_end_before_it_began(node: Node) -> None:
    session = await node.admit()
    ended = await node.complete(await node.claimed(session.id), YieldReason.BUDGET_EXCEEDED)
    assert await node.types(session.id) == ["user.message", "turn.started", "turn.completed"]
    assert ended.input_cursor == 1
    assert ended.usage.unreported_turns == 1


async def test_what_is_released_is_there_for_the_next(node: Node) -> None:
    session = await node.admit()
    claim = await node.running(session.id)
    await node.tables.turns.release(claim)
    assert await node.tables.turns.claimable(new.at(2), limit=9) == [session.id]
    with pytest.raises(Fenced):
        await _append(node, claim)
    again = await node.claimed(session.id, 3)
    assert (again.turn_id, again.attempt) == (claim.turn_id, 2)


async def test_turns_run_one_after_the_other(node: Node) -> None:
    session = await node.admit()
    first = await node.running(session.id)
    await node.say(session.id)
    assert await node.tables.turns.claim(session.id, "b", new.at(2), new.at(40)) is None
    await node.complete(first)
    second = await node.running(session.id, 4)
    assert second.turn_id != first.turn_id
    assert (await node.complete(second, seconds=5)).input_cursor == 3


async def test_finds_what_is_overdue_and_nobodys(node: Node) -> None:
    turns = node.tables.turns
    late, canceled, fine = [await node.admit() for _ in range(3)]
    await turns.begin(await node.claimed(late.id), new.at(1), new.at(100))
    for each in (canceled, fine):
        await node.running(each.id)
    await node.tables.sessions.request_cancel(canceled.id, new.at(2))
    assert await turns.overdue(new.at(20), limit=9) == []
    assert await turns.overdue(new.at(60), limit=9) == [canceled.id]
    assert await turns.overdue(new.at(100), limit=9) == sorted([late.id, canceled.id])


async def test_finds_what_may_sleep_until_it_does(node: Node) -> None:
    session, turns = await node.admit(), node.tables.turns
    await node.tables.sessions.set_boxes(session.id, Boxes(brain=SandboxId("sb-00000001")))
    await node.complete(await node.running(session.id))
    assert await turns.resting(new.at(2), limit=9) == []
    [seen] = await turns.resting(new.at(3), limit=9)
    await node.tables.sessions.note(session.id, [new.said()], new.at(50))
    await turns.rested(session.id, seen)
    assert await turns.resting(new.at(99), limit=9) == []
    await node.say(session.id, seconds=60)
    await node.complete(await node.running(session.id, 60), seconds=61)
    await turns.rested(session.id, seen)
    assert [each.id for each in await turns.resting(new.at(99), limit=9)] == [session.id]


async def test_refuses_to_append_what_changes_the_state(node: Node) -> None:
    session = await node.admit()
    claim = await node.running(session.id)
    with pytest.raises(ValueError, match="not just appended"):
        await node.tables.turns.append(claim, [new.said(type="turn.completed")], new.at(2))


async def test_the_lease_lasts_as_long_as_it_is_renewed(node: Node) -> None:
    session = await node.admit()
    claim = await node.running(session.id)
    await node.tables.turns.renew(claim, new.at(60))
    assert await node.tables.turns.claim(session.id, "b", new.at(59), new.at(99)) is None
    # Late, but nobody else came: still good.
    await node.tables.turns.renew(claim, new.at(70) + timedelta(seconds=30))
    await node.tables.turns.complete(claim, Completion(YieldReason.COMPLETED, new.at(70)))
