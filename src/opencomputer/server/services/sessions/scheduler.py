"""Fires schedules that are due (agent-sessions.md section 4.11).

A run is written together with the next time of its schedule, then its session is started under a key that
only depends on the run, then it is written what came of it. Whoever comes after a crash goes on from there.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.sessions import SessionStore
from opencomputer.server.contracts.starters import Firing, FiringStore, Hold
from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.domain.sessions.idempotency import request_hash
from opencomputer.server.domain.sessions.naming import new_schedule_run_id
from opencomputer.server.domain.sessions.schedules import (
    MAX_ERROR_CHARACTERS,
    Overlap,
    RunOutcome,
    Schedule,
    ScheduleRun,
    ScheduleState,
    session_input,
    session_key,
    session_metadata,
)
from opencomputer.server.domain.sessions.session import Session, SessionStatus
from opencomputer.server.services.hints import Hint
from opencomputer.server.services.sessions.sessions import DurableSessions, NewSession

_log = structlog.get_logger(__name__)

LONGEST_PAUSE_SECONDS = 60.0
_SHORTEST_PAUSE_SECONDS = 0.01
_HOLD = timedelta(minutes=2)
_GIVE_UP = timedelta(hours=1)
_BATCH = 50
RUNS_KEPT = 1000
"""Of one schedule."""
_WORKING = (SessionStatus.QUEUED, SessionStatus.RUNNING)


class Scheduler:
    """Truth is in the tables: several nodes may look at them, and each run is somebody's."""

    def __init__(
        self, store: FiringStore, sessions: DurableSessions, rows: SessionStore, clock: Clock, node: str
    ) -> None:
        """`node` names this node in every life of its process."""
        self._store = store
        self._sessions = sessions
        self._rows = rows
        self._clock = clock
        self._hint = Hint()
        self._lives = f"{node}:"
        self._owner = f"{node}:{secrets.token_hex(8)}"

    def look(self) -> None:
        """Schedules have changed: whoever sleeps until the next one is due looks again."""
        self._hint.tell()

    async def keep(self) -> None:
        """Fire what is due until cancelled."""
        await self.take_over()
        while True:
            await self._hint.wait(await self._round())

    async def fire(self, schedule: Schedule) -> ScheduleRun:
        """Start a session by hand, whatever the schedule's state is and whatever still works."""
        now = self._clock.now()
        run = ScheduleRun(new_schedule_run_id(), schedule.id, None, now)
        await self._store.begin(run, self._hold(now))
        return await self._enact(Firing(schedule, run))

    async def fire_due(self) -> None:
        """Everything that is due now."""
        while True:
            now = self._clock.now()
            due = await self._store.next_due()
            if due is None or due > now:
                return
            claimed = await self._store.claim(now, self._hold(now), limit=_BATCH)
            if not claimed:
                # It is just being claimed by another node, or it was a time that has fired.
                return
            for firing in claimed:
                try:
                    await self._enact(firing)
                except Exception:
                    # It is held for a while yet, and then taken again.
                    _log.exception("a schedule was not fired", schedule=firing.schedule.id)

    async def take_over(self) -> None:
        """What an earlier life of this node has begun is due at once."""
        # The data folder is locked by one process: whoever held runs in this node's name is dead.
        try:
            await self._store.disown(self._lives, self._owner)
        except Exception:
            _log.exception("runs of this node's earlier life wait until their hold ends")

    async def _round(self) -> float:
        """Fire what is due; how long to wait then, unless something happens."""
        try:
            await self.fire_due()
            due = await self._store.next_due()
        except Exception:
            _log.exception("schedules were not looked at; the next look tries again")
            return LONGEST_PAUSE_SECONDS
        if due is None:
            return LONGEST_PAUSE_SECONDS
        wait = (due - self._clock.now()).total_seconds()
        return min(LONGEST_PAUSE_SECONDS, max(_SHORTEST_PAUSE_SECONDS, wait))

    def _hold(self, now: datetime) -> Hold:
        return Hold(self._owner, now + _HOLD)

    async def _enact(self, firing: Firing) -> ScheduleRun:
        try:
            over = await self._outcome(firing.schedule, firing.run)
        except Exception as error:
            refused = isinstance(error, OpenComputerError) and not error.retryable
            if not refused and self._clock.now() - firing.run.fired_at < _GIVE_UP:
                raise
            text = error.message if isinstance(error, OpenComputerError) else "the server failed"
            over = replace(firing.run, outcome=RunOutcome.FAILED, error=text[:MAX_ERROR_CHARACTERS])
        return await self._store.settle(over, self._clock.now(), keep=RUNS_KEPT)

    async def _outcome(self, schedule: Schedule, run: ScheduleRun) -> ScheduleRun:
        wanted = _wanted(schedule, run)
        session = await self._rows.replay(
            schedule.org_id, wanted.request_hash, key=wanted.key, idempotency_key=None
        )
        if session is None:
            why = await self._why_not(schedule, run)
            if why is not None:
                return replace(run, outcome=RunOutcome.SKIPPED, error=why)
            session = (await self._sessions.create(schedule.org_id, wanted)).session
        return replace(run, outcome=RunOutcome.ENACTED, session_id=session.id)

    async def _why_not(self, schedule: Schedule, run: ScheduleRun) -> str | None:
        """Why nothing is to be started, though it is due."""
        if schedule.deleted_at is not None:
            return "the schedule was deleted"
        if run.scheduled_for is None:
            return None
        if schedule.state is ScheduleState.PAUSED:
            return "the schedule was paused"
        if schedule.overlap is Overlap.SKIP and _works(await self._last(schedule)):
            return "the session that was started last still works"
        return None

    async def _last(self, schedule: Schedule) -> Session | None:
        last = schedule.last_session
        return None if last is None else await self._rows.get(schedule.org_id, last)


def _works(session: Session | None) -> bool:
    return session is not None and session.status in _WORKING


def _wanted(schedule: Schedule, run: ScheduleRun) -> NewSession:
    """The session of a run. What is edited meanwhile does not make it another request."""
    key = session_key(run)
    return NewSession(
        agent=schedule.agent_id,
        input=session_input(schedule),
        request_hash=request_hash("schedule", key),
        key=key,
        metadata=session_metadata(run),
    )
