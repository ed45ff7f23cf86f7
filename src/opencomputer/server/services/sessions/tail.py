"""The newest events of a session that somebody watches, read once for all who do.

A tail is a window on the end of the log, not a queue: who falls out of it reads the log itself.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice

from opencomputer.server.contracts.sessions import EventLog
from opencomputer.server.domain.sessions.event_documents import event_document
from opencomputer.server.domain.sessions.events import Event, EventFilter
from opencomputer.server.services.hints import Hint
from opencomputer.server.services.sessions.signals import ProcessSignals
from opencomputer.wire.ids import SessionId

_EVERYTHING = EventFilter()
_READ_AT_ONCE = 500
_MOST_LINES = 1000
_MOST_BYTES = 2 << 20
_TRUSTED_SECONDS = 30.0
"""What was read so recently is not read again only because nobody said that it changed."""


@dataclass(frozen=True)
class Line:
    """An event and its document: one line of JSON, made once for all readers."""

    event: Event
    json: bytes


def line_of(event: Event) -> Line:
    return Line(event, json.dumps(event_document(event), ensure_ascii=True, separators=(",", ":")).encode())


class Tail(Hint):
    """The events in `(floor, head]` of one session. Nothing is in it before it is refreshed.

    It is told of what was appended in this process, and takes that if it follows on what it has; else it
    reads the log.
    """

    def __init__(self, session_id: SessionId, log: EventLog) -> None:
        super().__init__()
        self.floor = self.head = 0
        self._session_id = session_id
        self._log = log
        self._lines: deque[Line] = deque()
        self._bytes = 0
        self._opened = False
        self._seen = -1
        self._read_at = 0.0
        self._reading = asyncio.Lock()

    def covers(self, position: int) -> bool:
        """Whether everything after `position` that has been read is still here."""
        return position >= self.floor

    def after(self, position: int) -> Sequence[Line]:
        """What follows a position that is covered."""
        return list(islice(self._lines, max(0, position - self.floor), None))

    async def refresh(self) -> None:
        """Read on, unless nothing was appended since the last time. One reads for all who wait for it."""
        if self.current:
            return
        async with self._reading:
            if not self.current:
                await self._read()

    @property
    def current(self) -> bool:
        """Nothing is known to have been appended since it was read."""
        return self._seen == self.count

    def tell_events(self, events: Sequence[Event]) -> None:
        follows = self.current and not self._reading.locked()
        self.tell()
        if follows and events and events[0].seq == self.head + 1:
            self._take(events)
            self._seen = self.count

    def doubt(self) -> None:
        """Read again next time: another process may have appended, of which nobody here is told."""
        if asyncio.get_running_loop().time() - self._read_at > _TRUSTED_SECONDS:
            self._seen = -1

    async def _read(self) -> None:
        told = self.count
        if not self._opened:
            self.floor = self.head = await self._log.head(self._session_id)
            self._opened = True
        events = await self._log.read(self._session_id, _EVERYTHING, after=self.head, limit=_READ_AT_ONCE)
        self._read_at = asyncio.get_running_loop().time()
        if len(events) < _READ_AT_ONCE:
            self._seen = told
        self._take(events)

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            line = line_of(event)
            self._lines.append(line)
            self._bytes += len(line.json)
            self.head = event.seq
        while len(self._lines) > _MOST_LINES or self._bytes > _MOST_BYTES:
            dropped = self._lines.popleft()
            self._bytes -= len(dropped.json)
            self.floor = dropped.event.seq


@dataclass
class _Shared:
    tail: Tail
    hint: ExitStack
    readers: int = 0


class Tails:
    """The tails of the sessions that are watched in this process, each there as long as somebody does."""

    def __init__(self, log: EventLog, signals: ProcessSignals) -> None:
        self._log = log
        self._signals = signals
        self._shared: dict[SessionId, _Shared] = {}

    def __len__(self) -> int:
        return len(self._shared)

    @contextmanager
    def watching(self, session_id: SessionId) -> Generator[Tail]:
        shared = self._shared.get(session_id)
        if shared is None:
            hint = ExitStack()
            tail = Tail(session_id, self._log)
            hint.enter_context(self._signals.on_appended(session_id, tail))
            shared = self._shared[session_id] = _Shared(tail, hint)
        shared.readers += 1
        try:
            yield shared.tail
        finally:
            shared.readers -= 1
            if shared.readers == 0:
                del self._shared[session_id]
                shared.hint.close()
