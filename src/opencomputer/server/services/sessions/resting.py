"""Idle sessions hold no running compute (agent-sessions.md section 4.10)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import structlog

from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.domain.sandbox import backoff_seconds
from opencomputer.server.domain.sessions.session import Boxes, Session, SessionStatus
from opencomputer.server.services.repeating import repeat
from opencomputer.server.services.sessions.session_tasks import SessionTasks
from opencomputer.server.services.sessions.turn_parts import TurnParts
from opencomputer.wire.ids import SessionId

_log = structlog.get_logger(__name__)

REST_SECONDS = 60.0
LOOK_SECONDS = 5.0
_AT_ONCE = 4
_BATCH = 100


class Resting:
    """Puts the boxes of sessions to sleep that have nothing to do, and destroys those of archived ones."""

    def __init__(self, parts: TurnParts, tasks: SessionTasks) -> None:
        self._parts = parts
        self._tasks = tasks
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._failures: dict[SessionId, tuple[int, float]] = {}

    async def keep(self) -> None:
        await repeat(
            self.look,
            self._parts.clock,
            pause_seconds=LOOK_SECONDS,
            complaint="sessions at rest were not looked for; the next look comes soon",
        )

    async def look(self) -> None:
        """Begin with every session that is due."""
        before = self._parts.clock.now() - timedelta(seconds=REST_SECONDS)
        due = await self._parts.turns.resting(before, limit=_BATCH)
        self._failures = {
            session.id: self._failures[session.id] for session in due if session.id in self._failures
        }
        for session in due:
            _, not_before = self._failures.get(session.id, (0, 0.0))
            if self._parts.clock.monotonic() >= not_before:
                self._tasks.start(session.id, lambda seen=session: self._rest(seen))

    async def _rest(self, seen: Session) -> None:
        async with self._places:
            session = await self._parts.sessions.find(seen.id)
            if session is None or session.status in (SessionStatus.QUEUED, SessionStatus.RUNNING):
                return
            try:
                await self._put_to_rest(session)
            except (OpenComputerError, OSError) as error:
                self._postpone(session, str(error))

    async def _put_to_rest(self, session: Session) -> None:
        if session.archived:
            await self._parts.boxes.destroy(session)
            await self._parts.sessions.set_boxes(session.id, Boxes())
        else:
            await self._parts.boxes.rest(session)
        await self._parts.turns.rested(session.id, session)
        self._failures.pop(session.id, None)

    def _postpone(self, session: Session, reason: str) -> None:
        failures = self._failures.get(session.id, (0, 0.0))[0] + 1
        pause = backoff_seconds(failures)
        _log.error("a session's boxes run on", session=session.id, reason=reason, next_attempt_seconds=pause)
        self._failures[session.id] = (failures, self._parts.clock.monotonic() + pause)
