"""Admitting sessions and what is said to them."""

from __future__ import annotations

import pytest

from opencomputer.server.domain.errors import Conflict, IdempotencyMismatch, NotFound
from opencomputer.server.domain.sessions.errors import SessionArchived
from opencomputer.server.domain.sessions.events import Level, NewEvent
from opencomputer.server.domain.sessions.naming import new_session_id, new_turn_id
from opencomputer.server.domain.sessions.session import (
    Boxes,
    Origin,
    SessionFilter,
    SessionLimits,
    SessionStatus,
    TurnState,
    YieldReason,
)
from opencomputer.wire.ids import OrgId, SandboxId
from tests.support import session_rows as new
from tests.unit.server.stores.sessions.conftest import Node

pytestmark = pytest.mark.anyio


async def test_a_session_comes_with_its_first_input_and_turn(node: Node) -> None:
    wanted = new.admission(
        node.org_id,
        key="k",
        metadata={"thread": 7},
        limits=SessionLimits(tokens=5),
        origin=Origin(new_session_id(), new_turn_id()),
    )
    admitted = await node.tables.sessions.admit(wanted)
    session = admitted.session
    assert not admitted.replayed
    assert (session.status, session.head, session.input_cursor) == (SessionStatus.QUEUED, 1, 0)
    assert session.agent == wanted.session.agent
    assert (session.key, session.metadata, session.limits) == ("k", {"thread": 7}, SessionLimits(tokens=5))
    assert session.origin == wanted.session.origin
    turn = session.last_turn
    assert turn is not None
    assert (turn.id, turn.state, turn.ordinal) == (wanted.first_turn, TurnState.QUEUED, 1)
    assert (turn.input_from_seq, turn.input_to_seq) == (1, 1)
    [event] = await node.events(session.id)
    assert (event.seq, event.type, event.turn_id, event.body) == (
        1,
        "user.message",
        turn.id,
        {"text": "hello"},
    )
    assert await node.session(session.id) == await node.tables.sessions.find(session.id) == session


async def test_another_organisation_does_not_find_it(node: Node) -> None:
    session = await node.admit()
    assert await node.tables.sessions.get(OrgId("other"), session.id) is None


async def test_the_same_key_gives_the_same_session(node: Node) -> None:
    first = await node.admit(key="k", idempotency_key="i")
    for again in ({"key": "k"}, {"idempotency_key": "i"}, {"key": "k", "idempotency_key": "i"}):
        admitted = await node.tables.sessions.admit(new.admission(node.org_id, **again))
        assert (admitted.replayed, admitted.session) == (True, first)
    with pytest.raises(IdempotencyMismatch, match="the create key was already used"):
        await node.tables.sessions.admit(new.admission(node.org_id, "other", key="k"))
    with pytest.raises(IdempotencyMismatch):
        await node.tables.sessions.admit(new.admission(node.org_id, "other", idempotency_key="i"))
    assert len(await node.tables.sessions.list(node.org_id, SessionFilter(), limit=9)) == 1


async def test_finds_what_a_request_made_before(node: Node) -> None:
    session = await node.admit(key="k", idempotency_key="i")
    replay = node.tables.sessions.replay
    assert await replay(node.org_id, "h", key="k", idempotency_key=None) == session
    assert await replay(node.org_id, "h", key=None, idempotency_key="i") == session
    assert await replay(node.org_id, "h", key=None, idempotency_key=None) is None
    assert await replay(OrgId("other"), "h", key="k", idempotency_key="i") is None
    with pytest.raises(IdempotencyMismatch):
        await replay(node.org_id, "other", key="k", idempotency_key=None)


async def test_a_session_that_starts_without_an_input_waits_for_one(node: Node) -> None:
    forked = NewEvent("session.forked", Level.PROGRESS, {"summary": "of another"})
    session = await node.admit(input=forked)
    assert (session.status, session.head, session.last_turn) == (SessionStatus.IDLE, 1, None)
    await node.say(session.id)
    assert (await node.session(session.id)).status is SessionStatus.QUEUED


async def test_lists_newest_first_page_by_page(node: Node) -> None:
    made = [await node.admit(created_at=new.at(each // 2), key=f"k{each}") for each in range(6)]
    expected = sorted(made, key=lambda each: (each.created_at, each.id), reverse=True)
    first = await node.tables.sessions.list(node.org_id, SessionFilter(), limit=4)
    rest = await node.tables.sessions.list(node.org_id, SessionFilter(), limit=4, before=first[-1])
    assert [*first, *rest] == expected


async def test_lists_what_is_asked_for(node: Node) -> None:
    made = [await node.admit(created_at=new.at(each), key=f"k{each}") for each in range(4)]
    await node.tables.sessions.archive(made[3].id, new.at(9))

    async def found(**wanted: object) -> list[str | None]:
        sessions = await node.tables.sessions.list(node.org_id, SessionFilter(**wanted), limit=9)  # pyright: ignore[reportArgumentType]
        return [session.key for session in sessions]

    assert await found(status=SessionStatus.ARCHIVED) == ["k3"]
    assert await found(agent_id=made[1].agent.agent_id) == ["k1"]
    assert await found(key="k2") == ["k2"]
    assert await found(created_after=new.at(0), created_before=new.at(3)) == ["k2", "k1"]


async def test_an_input_joins_the_turn_that_has_not_started(node: Node) -> None:
    session = await node.admit()
    joined = await node.say(session.id)
    claim = await node.claimed(session.id)
    late = await node.say(session.id)
    assert joined.turn_id == late.turn_id == claim.turn_id
    turn = await node.tables.turns.begin(claim, new.at(2), new.at(99))
    assert (turn.input_from_seq, turn.input_to_seq) == (1, 3)
    following = await node.say(session.id)
    assert following.turn_id != claim.turn_id
    assert (await node.session(session.id)).status is SessionStatus.RUNNING


async def test_the_same_input_is_taken_once(node: Node) -> None:
    session = await node.admit()
    sessions, once = node.tables.sessions, new.message("once", key="k")
    first = await sessions.accept(session.id, once, new.at(1), request_hash="a")
    again = await sessions.accept(session.id, once, new.at(2), request_hash="a")
    assert (first.replayed, again.replayed) == (False, True)
    assert again.event == first.event
    assert again.session.head == 2
    with pytest.raises(IdempotencyMismatch):
        await sessions.accept(session.id, once, new.at(2), request_hash="b")
    other = await node.admit()
    assert not (await sessions.accept(other.id, once, new.at(2), request_hash="b")).replayed


async def test_the_key_of_an_input_is_none_of_the_servers_own(node: Node) -> None:
    session = await node.admit()
    await node.tables.sessions.accept(session.id, new.message(key="rt:1"), new.at(1), request_hash="a")
    claim = await node.running(session.id)
    [mine] = await node.tables.turns.append(claim, [new.said(key="rt:1")], new.at(2))
    assert mine.type == "agent.message"
    assert await node.tables.turns.keys(claim, "rt:") == ["rt:1"]


async def test_an_input_wakes_and_starts_the_count_anew(node: Node) -> None:
    session = await node.admit()
    claim = await node.running(session.id)
    assert [await node.tables.turns.count_run(claim) for _ in range(2)] == [1, 2]
    await node.complete(claim)
    assert (await node.session(session.id)).auto_runs == 2
    accepted = await node.tables.sessions.accept(session.id, new.message(), new.at(5))
    assert (accepted.session.status, accepted.session.auto_runs) == (SessionStatus.QUEUED, 0)
    assert accepted.session.last_turn is not None
    assert accepted.session.last_turn.ordinal == 2


async def test_says_which_sessions_it_does_not_know(node: Node) -> None:
    unknown, sessions = new_session_id(), node.tables.sessions
    for attempt in (
        sessions.accept(unknown, new.message(), new.at()),
        sessions.note(unknown, [new.said()], new.at()),
        sessions.request_cancel(unknown, new.at()),
        sessions.archive(unknown, new.at()),
        sessions.rewind(unknown, new_turn_id(), new.at()),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert await node.tables.log.head(unknown) == 0


async def test_cancels_a_turn_at_once_that_nobody_works_on(node: Node) -> None:
    session = await node.admit()
    canceled = await node.tables.sessions.request_cancel(session.id, new.at(1))
    assert (canceled.status, canceled.input_cursor) == (SessionStatus.IDLE, 1)
    assert await node.types(session.id) == ["user.message", "turn.started", "turn.completed"]
    assert canceled.last_turn is not None
    assert (canceled.last_turn.state, canceled.last_turn.yield_reason) == (TurnState.OK, YieldReason.CANCELED)
    assert canceled.usage.unreported_turns == 0
    assert await node.tables.sessions.request_cancel(session.id, new.at(2)) == canceled


async def test_asks_the_turn_that_runs_to_stop(node: Node) -> None:
    session = await node.admit()
    claim = await node.running(session.id)
    canceled = await node.tables.sessions.request_cancel(session.id, new.at(2))
    assert canceled.status is SessionStatus.RUNNING
    flags = await node.tables.turns.renew(claim, new.at(40))
    assert flags.cancel_requested_at == new.at(2)
    assert flags.deadline_at == new.at(1801)


async def test_archiving_ends_everything_and_fences(node: Node) -> None:
    session = await node.admit()
    await node.running(session.id)
    await node.say(session.id)
    archived = await node.tables.sessions.archive(session.id, new.at(5))
    assert archived.status is SessionStatus.ARCHIVED
    assert archived.epoch > session.epoch + 1
    assert (await node.types(session.id))[3:] == [
        "turn.completed",
        "turn.started",
        "turn.completed",
        "session.archived",
    ]
    assert await node.tables.sessions.archive(session.id, new.at(6)) == archived
    assert {turn.yield_reason for turn in await node.tables.sessions.turns(session.id, limit=9)} == {
        YieldReason.CANCELED
    }
    with pytest.raises(SessionArchived):
        await node.say(session.id)
    assert await node.tables.turns.claimable(new.at(99), limit=9) == []


async def test_a_replay_is_answered_after_archiving(node: Node) -> None:
    session = await node.admit()
    once = new.message(key="k")
    first = await node.tables.sessions.accept(session.id, once, new.at(1), request_hash="a")
    await node.tables.sessions.archive(session.id, new.at(2))
    again = await node.tables.sessions.accept(session.id, once, new.at(3), request_hash="a")
    assert (again.event, again.replayed) == (first.event, True)


async def test_turns_newest_first(node: Node) -> None:
    session = await node.admit()
    for _ in range(3):
        await node.complete(await node.running(session.id))
        await node.say(session.id)
    first = await node.tables.sessions.turns(session.id, limit=3)
    rest = await node.tables.sessions.turns(session.id, limit=3, before=first[-1])
    assert [turn.ordinal for turn in [*first, *rest]] == [4, 3, 2, 1]
    assert await node.tables.sessions.turn(session.id, first[1].id) == first[1]
    assert await node.tables.sessions.turn(new_session_id(), first[1].id) is None


async def test_rewinds_a_session_at_rest(node: Node) -> None:
    session = await node.admit()
    turn = session.last_turn
    assert turn is not None
    with pytest.raises(Conflict):
        await node.tables.sessions.rewind(session.id, turn.id, new.at(1))
    await node.complete(await node.running(session.id), YieldReason.NEEDS_INPUT, state_kept=True)
    await node.say(session.id)
    await node.complete(await node.running(session.id), YieldReason.NEEDS_INPUT, state_kept=True)
    rewound = await node.tables.sessions.rewind(session.id, turn.id, new.at(9))
    assert (rewound.resume_from, rewound.status) == (turn.id, SessionStatus.IDLE)
    assert (await node.types(session.id))[-1] == "session.rewound"
    with pytest.raises(NotFound):
        await node.tables.sessions.rewind(session.id, new_turn_id(), new.at(9))
    await node.tables.sessions.archive(session.id, new.at(10))
    with pytest.raises(SessionArchived):
        await node.tables.sessions.rewind(session.id, turn.id, new.at(11))


async def test_knows_its_boxes(node: Node) -> None:
    session = await node.admit()
    boxes = Boxes(brain=SandboxId("sb-00000001"), hands=SandboxId("sb-00000002"))
    await node.tables.sessions.set_boxes(session.id, boxes)
    assert (await node.session(session.id)).boxes == boxes


async def test_notes_what_the_server_has_to_say(node: Node) -> None:
    session = await node.admit()
    note = NewEvent("sandbox.created", Level.INTERNAL, {"summary": "a brain"}, key="n")
    [first] = await node.tables.sessions.note(session.id, [note], new.at(1))
    [again] = await node.tables.sessions.note(session.id, [note], new.at(2))
    assert first == again
    assert (first.turn_id, first.seq) == (None, 2)
    with pytest.raises(ValueError, match="not just noted"):
        await node.tables.sessions.note(session.id, [new.message()], new.at(3))
