"""Who waits in this process for something to happen to a session is woken, and looks what it was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager

from opencomputer.server.domain.sessions.events import Event
from opencomputer.server.services.hints import Bell, Hint
from opencomputer.wire.ids import SessionId


class QueuedHint(Hint):
    """Which sessions were said to have a turn to run."""

    def __init__(self) -> None:
        super().__init__()
        self._sessions: set[SessionId] = set()

    def tell_of(self, session_id: SessionId) -> None:
        self._sessions.add(session_id)
        self.tell()

    def take(self) -> set[SessionId]:
        """Those since the last time."""
        taken, self._sessions = self._sessions, set()
        return taken


class ProcessSignals:
    """Implements SessionSignals. Belongs to one event loop."""

    def __init__(self) -> None:
        self._appended: dict[SessionId, set[Hint]] = defaultdict(set)
        self._canceled: dict[SessionId, set[Hint]] = defaultdict(set)
        self._queued: set[QueuedHint] = set()
        self._deliveries = Bell()

    @property
    def waiting(self) -> int:
        """How many sessions somebody waits for."""
        return len(self._appended.keys() | self._canceled.keys())

    def appended(self, session_id: SessionId, events: Sequence[Event] = ()) -> None:
        for hint in self._appended.get(session_id, ()):
            hint.tell_events(events)

    def canceled(self, session_id: SessionId) -> None:
        for hint in self._canceled.get(session_id, ()):
            hint.tell()

    def queued(self, session_id: SessionId) -> None:
        for hint in self._queued:
            hint.tell_of(session_id)

    def delivery(self) -> None:
        self._deliveries.ring()

    @contextmanager
    def on_appended(self, session_id: SessionId, hint: Hint | None = None) -> Generator[Hint]:
        """Woken when the session's log has grown."""
        with _among(self._appended, session_id, hint or Hint()) as told:
            yield told

    @contextmanager
    def on_canceled(self, session_id: SessionId) -> Generator[Hint]:
        """Woken when the session's turn is to stop, or is fenced."""
        with _among(self._canceled, session_id, Hint()) as hint:
            yield hint

    @contextmanager
    def on_queued(self) -> Generator[QueuedHint]:
        """Woken when any session has a turn to run."""
        hint = QueuedHint()
        self._queued.add(hint)
        try:
            yield hint
        finally:
            self._queued.discard(hint)

    def on_delivery(self) -> AbstractContextManager[Hint]:
        """Woken when something is to be delivered."""
        return self._deliveries.heard()


@contextmanager
def _among(hints: dict[SessionId, set[Hint]], session_id: SessionId, hint: Hint) -> Generator[Hint]:
    hints[session_id].add(hint)
    try:
        yield hint
    finally:
        hints[session_id].discard(hint)
        if not hints[session_id]:
            del hints[session_id]
