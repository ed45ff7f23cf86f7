"""What a tail holds, and when it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from opencomputer.server.domain.sessions.events import AGENT, Content, Event, EventFilter, Level
from opencomputer.server.domain.sessions.naming import new_event_id, new_session_id
from opencomputer.server.services.sessions.signals import ProcessSignals
from opencomputer.server.services.sessions.tail import Tail, Tails
from opencomputer.wire.ids import EventId, SessionId

pytestmark = pytest.mark.anyio

MINE = new_session_id()
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _event(seq: int, text: str = "") -> Event:
    return Event(
        new_event_id(), MINE, seq, NOON, "agent.message", Level.USER, {"text": text}, AGENT, None, {}, None
    )


@dataclass
class _Log:
    """A log in memory that counts how often it is read."""

    events: list[Event] = field(default_factory=list[Event])
    reads: int = 0

    def add(self, count: int = 1, text: str = "") -> list[Event]:
        added = [_event(len(self.events) + each, text) for each in range(1, count + 1)]
        self.events += added
        return added

    async def read(
        self, session_id: SessionId, wanted: EventFilter, *, after: int, limit: int
    ) -> Sequence[Event]:
        self.reads += 1
        return self.events[after : after + limit]

    async def head(self, session_id: SessionId) -> int:
        return len(self.events)

    async def event(self, session_id: SessionId, event_id: EventId) -> Event | None: ...

    async def content(self, session_id: SessionId, event_id: EventId) -> Content | None: ...


def _seqs(tail: Tail, after: int) -> list[int]:
    return [line.event.seq for line in tail.after(after)]


async def test_reads_only_when_something_was_appended() -> None:
    log, signals = _Log(), ProcessSignals()
    log.add(3)
    with Tails(log, signals).watching(MINE) as tail:
        for _ in range(3):
            await tail.refresh()
        assert (log.reads, tail.floor, tail.head) == (1, 3, 3)
        log.add()
        await tail.refresh()
        assert tail.head == 3
        signals.appended(MINE)
        await tail.refresh()
        assert (log.reads, _seqs(tail, 3)) == (2, [4])


async def test_takes_what_follows_without_reading_it() -> None:
    log, signals = _Log(), ProcessSignals()
    log.add(3)
    with Tails(log, signals).watching(MINE) as tail:
        signals.appended(MINE, log.add())
        await tail.refresh()
        signals.appended(MINE, log.add(2))
        await tail.refresh()
        assert (log.reads, tail.current, _seqs(tail, 4)) == (1, True, [5, 6])


async def test_what_does_not_follow_is_read() -> None:
    """Two transactions may tell in another order than they were committed in."""
    log, signals = _Log(), ProcessSignals()
    with Tails(log, signals).watching(MINE) as tail:
        await tail.refresh()
        first, second = log.add(), log.add()
        signals.appended(MINE, second)
        assert (tail.current, tail.head) == (False, 0)
        signals.appended(MINE, first)
        assert (tail.current, tail.head) == (False, 0)
        await tail.refresh()
        assert (log.reads, _seqs(tail, 0)) == (2, [1, 2])
        # And what it has already is not taken again.
        signals.appended(MINE, second)
        await tail.refresh()
        assert _seqs(tail, 0) == [1, 2]


async def test_a_tail_is_bounded_and_says_what_fell_out() -> None:
    log, signals = _Log(), ProcessSignals()
    with Tails(log, signals).watching(MINE) as tail:
        await tail.refresh()
        signals.appended(MINE, log.add(1500))
        assert (tail.floor, tail.head) == (500, 1500)
        assert not tail.covers(499)
        assert _seqs(tail, 1498) == [1499, 1500]
        signals.appended(MINE, log.add(200, "x" * 30_000))
        assert 1600 < tail.floor < 1700


async def test_a_long_way_is_read_in_steps() -> None:
    log, signals = _Log(), ProcessSignals()
    with Tails(log, signals).watching(MINE) as tail:
        await tail.refresh()
        log.add(700)
        signals.appended(MINE)
        await tail.refresh()
        assert (tail.head, tail.current) == (500, False)
        await tail.refresh()
        assert (tail.head, tail.current) == (700, True)


async def test_watchers_share_one_and_the_last_one_leaves_none() -> None:
    signals = ProcessSignals()
    tails = Tails(_Log(), signals)
    with tails.watching(MINE) as one, tails.watching(MINE) as two:
        assert one is two
        assert (len(tails), signals.waiting) == (1, 1)
    assert (len(tails), signals.waiting) == (0, 0)
