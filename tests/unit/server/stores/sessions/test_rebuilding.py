"""Whatever happens to a session: its log has no gap, and says everything about its state."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opencomputer.server.contracts.sessions import Fenced
from opencomputer.server.domain.errors import Conflict
from opencomputer.server.domain.sessions.errors import SessionArchived
from opencomputer.server.domain.sessions.events import Event
from opencomputer.server.domain.sessions.fold import Fold, after
from opencomputer.server.domain.sessions.session import (
    Claim,
    Completion,
    Session,
    SessionStatus,
    Turn,
    TurnError,
    TurnState,
    Usage,
    YieldReason,
)
from opencomputer.server.stores.sql.database import Database
from opencomputer.wire.ids import TurnId
from tests.support import session_rows as new
from tests.unit.server.stores.sessions.conftest import Node, new_node

_USAGES = st.none() | st.builds(
    Usage,
    input_tokens=st.integers(0, 9),
    output_tokens=st.integers(0, 9),
    cost_usd=st.none() | st.sampled_from([0.25, 0.5]),
    complete=st.booleans(),
)
_ENDINGS = st.builds(
    Completion,
    reason=st.sampled_from(YieldReason),
    at=st.just(new.at()),
    usage=_USAGES,
    error=st.none() | st.just(TurnError("model_error", "it did not answer", retriable=True)),
    failed=st.booleans(),
    state_kept=st.booleans(),
)
_ACTIONS = ["say", "say_same", "claim", "begin", "append", "append_same", "retry", "release"]
_STEPS = st.one_of(st.sampled_from([*_ACTIONS, "cancel", "archive", "rewind", "note", "late"]), _ENDINGS)


class _Life:
    """One session, and those who do things to it."""

    def __init__(self, node: Node, session: Session) -> None:
        self.node = node
        self.session = session
        self.now = new.at()
        self.claim: Claim | None = None

    async def do(self, step: str | Completion) -> None:
        self.now += timedelta(seconds=1.25)
        try:
            await (self._end(step) if isinstance(step, Completion) else self._do(step))
        except (Fenced, SessionArchived, Conflict):
            return

    async def _end(self, how: Completion) -> None:
        if self.claim is not None:
            await self.node.tables.turns.complete(self.claim, replace(how, at=self.now), [new.said()])

    async def _do(self, step: str) -> None:
        sessions, turns, id = self.node.tables.sessions, self.node.tables.turns, self.session.id
        if step == "late":
            self.now += timedelta(seconds=60)
        elif step.startswith("say"):
            key = "same" if step == "say_same" else None
            await sessions.accept(id, new.message(key=key), self.now, request_hash="h")
        elif step == "note":
            await sessions.note(id, [new.said(type="sandbox.woken")], self.now)
        elif step == "cancel":
            await sessions.request_cancel(id, self.now)
        elif step == "archive":
            await sessions.archive(id, self.now)
        elif step == "rewind":
            newest = await sessions.turns(id, limit=1)
            await sessions.rewind(id, newest[0].id, self.now)
        elif step == "claim":
            until = self.now + timedelta(seconds=30)
            self.claim = await turns.claim(id, "me", self.now, until) or self.claim
        elif self.claim is not None:
            await self._write(step, self.claim)

    async def _write(self, step: str, claim: Claim) -> None:
        turns = self.node.tables.turns
        if step == "begin":
            await turns.begin(claim, self.now, self.now + timedelta(seconds=600))
        elif step == "retry":
            self.claim = await turns.retry(claim)
        elif step == "release":
            await turns.release(claim)
        else:
            key = "same" if step == "append_same" else None
            await turns.append(claim, [new.said(), new.said("twice", key=key)], self.now)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[asyncio.Runner, Node]]:
    with asyncio.Runner() as runner:
        database = Database.sqlite(Path(tmp_path_factory.mktemp("rebuilding")) / "sessions.db")
        runner.run(database.open())
        try:
            yield runner, runner.run(new_node(database))
        finally:
            runner.run(database.close())


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(_STEPS, max_size=40))
def test_a_sessions_state_is_what_its_events_say(
    world: tuple[asyncio.Runner, Node], steps: Sequence[str | Completion]
) -> None:
    runner, node = world
    runner.run(_live(node, steps))


async def _live(node: Node, steps: Iterable[str | Completion]) -> None:
    life = _Life(node, await node.admit())
    for step in steps:
        await life.do(step)
    events = await node.events(life.session.id)
    session = await node.session(life.session.id)
    turns = await node.tables.sessions.turns(life.session.id, limit=1000)
    _check_log(events)
    fold, rebuilt = _rebuilt(events)
    assert (session.status, session.head, session.input_cursor, session.usage) == (
        fold.status,
        fold.head,
        fold.input_cursor,
        fold.usage,
    )
    assert {turn.id: _told(turn) for turn in turns} == {id: _told(turn) for id, turn in rebuilt.items()}
    assert (session.last_turn or turns[0]).id == turns[0].id
    waiting = any(not turn.state.terminal for turn in turns)
    assert (session.status in (SessionStatus.QUEUED, SessionStatus.RUNNING)) == waiting


def _check_log(events: Sequence[Event]) -> None:
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert len({event.id for event in events}) == len(events)
    for kind in ("turn.started", "turn.completed"):
        turns = [event.turn_id for event in events if event.type == kind]
        assert len(turns) == len(set(turns))
    assert sum(event.body.get("text") == "twice" for event in events) <= len(events)


def _rebuilt(events: Iterable[Event]) -> tuple[Fold, dict[TurnId, Turn]]:
    fold, turns = Fold(), dict[TurnId, Turn]()
    for event in events:
        fold, turn = after(fold, event)
        if turn is not None:
            turns[turn.id] = turn
    return fold, turns


def _told(turn: Turn) -> Turn:
    """Without what belongs to whoever works on it, of which the log says nothing."""
    state = TurnState.QUEUED if turn.state is TurnState.ACCEPTED else turn.state
    return replace(
        turn,
        state=state,
        attempt=0,
        claimed_at=None,
        deadline_at=None,
        cancel_requested_at=None,
        checkpoint=None,
        state_kept=False,
    )
