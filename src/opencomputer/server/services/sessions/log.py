"""Reading the log of a durable session: a page of it, one event, or everything from somewhere on for good."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from opencomputer.server.contracts.sessions import EventLog, SessionTables
from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sessions.events import Content, Event, EventFilter
from opencomputer.server.domain.sessions.patterns import passes
from opencomputer.server.services.hints import Hint
from opencomputer.server.services.sessions.signals import ProcessSignals
from opencomputer.server.services.sessions.tail import Line, Tail, Tails, line_of
from opencomputer.wire.ids import EventId, OrgId, SessionId

_PAGE_BYTES = 8 << 20
"""Of one page; the next one goes on where it ends."""
_CATCHING_UP_AT_ONCE = 200
_CATCHING_UP = 4
"""So many readers read old events at the same time: others need the database as well."""


@dataclass(frozen=True)
class Page:
    """Some events in order. `more`: the log has others that come after them."""

    lines: Sequence[Line]
    more: bool


class SessionLog:
    """What there is to read about sessions. Another organisation's session is NotFound."""

    def __init__(self, tables: SessionTables, signals: ProcessSignals) -> None:
        self._sessions = tables.sessions
        self._log = tables.log
        self._signals = signals
        self._tails = Tails(tables.log, signals)
        self._catching_up = asyncio.Semaphore(_CATCHING_UP)
        self._closed = asyncio.Event()

    async def check(self, org_id: OrgId, session_id: SessionId) -> None:
        if await self._sessions.get(org_id, session_id) is None:
            raise NotFound("there is no such session")

    async def page(self, session_id: SessionId, wanted: EventFilter, *, after: int, limit: int) -> Page:
        """Up to `limit` events with `seq > after`; fewer where they are very large."""
        events = await self._log.read(session_id, wanted, after=after, limit=limit + 1)
        lines: list[Line] = []
        size = 0
        for event in events[:limit]:
            line = line_of(event)
            size += len(line.json)
            if lines and size > _PAGE_BYTES:
                break
            lines.append(line)
        return Page(lines, more=len(events) > len(lines))

    async def event(self, session_id: SessionId, event_id: EventId) -> Event:
        found = await self._log.event(session_id, event_id)
        if found is None:
            raise NotFound("there is no such event")
        return found

    async def content(self, session_id: SessionId, event_id: EventId) -> Content:
        found = await self._log.content(session_id, event_id)
        if found is None:
            raise NotFound("this event has no content of its own, or there is no such event")
        return found

    @contextmanager
    def reading(self, session_id: SessionId, wanted: EventFilter, after: int) -> Generator[Reader]:
        """Follow the log from `after` on."""
        with self._signals.on_appended(session_id) as appended, self._tails.watching(session_id) as tail:
            yield Reader(_Source(session_id, wanted, self._log, tail, self._catching_up), appended, after)

    @property
    def watched(self) -> int:
        """How many sessions somebody follows."""
        return len(self._tails)

    async def keep(self) -> None:
        """Let readers follow until this is cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            self._closed.set()

    async def closed(self) -> None:
        """Returns when the node stops: whoever follows the log leaves then."""
        await self._closed.wait()


@dataclass(frozen=True)
class _Source:
    session_id: SessionId
    wanted: EventFilter
    log: EventLog
    tail: Tail
    turn: asyncio.Semaphore


class Reader:
    """One who follows a log: from the tail it shares with others, or from the log itself when it is behind.

    It holds no events that were not asked for yet, so a slow one costs nobody anything.
    """

    def __init__(self, source: _Source, appended: Hint, after: int) -> None:
        self._source = source
        self._appended = appended
        self._position = after

    async def next(self) -> Sequence[Line]:
        """What comes next of what is wanted; nothing when there is nothing for now. Each event comes once."""
        tail = self._source.tail
        await tail.refresh()
        if not tail.covers(self._position):
            return await self._catch_up()
        lines = tail.after(self._position)
        if lines:
            self._position = lines[-1].event.seq
        return [line for line in lines if passes(self._source.wanted, line.event)]

    async def wait(self, seconds: float) -> bool:
        """Until the log may have grown; False when that takes longer. Look after this, whatever it says."""
        tail = self._source.tail
        if not tail.current or self._position < tail.head or await self._appended.wait(seconds):
            return True
        tail.doubt()
        return False

    async def _catch_up(self) -> Sequence[Line]:
        source = self._source
        async with source.turn:
            # Whatever has a seq up to this is committed, and so is in what is read now.
            head = source.tail.head
            events = await source.log.read(
                source.session_id, source.wanted, after=self._position, limit=_CATCHING_UP_AT_ONCE
            )
        if len(events) < _CATCHING_UP_AT_ONCE:
            self._position = max(head, events[-1].seq if events else head)
        else:
            self._position = events[-1].seq
        return [line_of(event) for event in events]
