"""A turn's work: attempt after attempt until one comes to an end (agent-sessions.md sections 4.5, 4.9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import structlog

from opencomputer.server.contracts.runtimes import Brain, Runtime
from opencomputer.server.contracts.sessions import Fenced
from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.domain.sessions.endings import Ending, ending_of
from opencomputer.server.domain.sessions.errors import UnsupportedRuntime
from opencomputer.server.domain.sessions.events import RUNTIME_RESTARTED, SYSTEM, Level, NewEvent
from opencomputer.server.domain.sessions.inputs import CONTINUE, NOTICE
from opencomputer.server.domain.sessions.limits import runs_used_up, tripped, turn_deadline
from opencomputer.server.domain.sessions.recovery import (
    MOST_CLAIMS,
    TryAgain,
    after_failure,
    gone_astray,
)
from opencomputer.server.domain.sessions.session import Session, Turn, Usage, YieldReason
from opencomputer.server.domain.sessions.tool_events import interruption
from opencomputer.server.services.sessions.brain_runs import BrainRuns, RunInput
from opencomputer.server.services.sessions.lease import Lease
from opencomputer.server.services.sessions.turn_parts import TurnParts, has_asked, inputs, work_done

_log = structlog.get_logger(__name__)


class Attempts:
    """What one owner of a turn does for it. `turn` and `usage` are as they are by now."""

    def __init__(self, parts: TurnParts, lease: Lease, session: Session, turn: Turn) -> None:
        self._parts = parts
        self._lease = lease
        self._session = session
        self._runs: BrainRuns | None = None
        self._run_count = session.auto_runs
        self._broken = turn.attempt > 1
        self.turn = turn

    @property
    def brain(self) -> Brain | None:
        """The brain that worked on it, or may still."""
        return self._runs.brain if self._runs is not None else None

    @property
    def usage(self) -> Usage | None:
        """What was reported. What an attempt that broke off had used, nobody knows."""
        usage = self._runs.usage if self._runs is not None else None
        return replace(usage, complete=False) if usage is not None and self._broken else usage

    def broke_off(self) -> None:
        self._broken = True

    async def ending(self) -> Ending:
        """Work until the turn ends. Raises Fenced."""
        if self.turn.attempt > MOST_CLAIMS:
            return gone_astray()
        limit = tripped(self._session) if self.turn.started_at is None else None
        if limit is not None:
            return Ending(limit)
        runtime = self._parts.runtimes.get(self._session.agent.runtime)
        if runtime is None:
            return _ended(UnsupportedRuntime())
        return await self._attempt_again_and_again(runtime)

    async def _attempt_again_and_again(self, runtime: Runtime) -> Ending:
        self._runs = BrainRuns(self._parts, runtime, self._lease)
        attempts = 1
        while True:
            try:
                return await self._attempt(self._runs)
            except Fenced:
                raise
            except Exception as error:
                if self._runs.asked:
                    return Ending(YieldReason.NEEDS_INPUT)
                step = after_failure(error, attempts)
                _tell(error, self.turn, step)
                if isinstance(step, Ending):
                    return step
                self._broken = True
                await self._start_over(error, step)
                attempts += 1

    async def _attempt(self, runs: BrainRuns) -> Ending:
        await runs.prepare(self._session)
        await self.begin()
        self._lease.expect_by(self.turn.deadline_at)
        done = await work_done(self._parts.log, self.turn) if self.turn.attempt > 1 else ()
        past = interruption(done)
        if notes := past.notes():
            await self._parts.turns.append(self._lease.claim, notes, self._parts.clock.now())
        if any(has_asked(event) for event in done):
            return Ending(YieldReason.NEEDS_INPUT)
        told = past.text()
        texts = [*await inputs(self._parts.log, self.turn), *([f"{NOTICE} {told}"] if told else ())]
        return await self._run_on(runs, texts)

    async def _run_on(self, runs: BrainRuns, texts: Sequence[str]) -> Ending:
        resume = self._session.resume_from is not None
        said: str | None = None
        while True:
            if runs_used_up(self._session, self._run_count):
                return Ending(YieldReason.MAX_TURNS)
            end = await runs.run(self._session, self.turn, RunInput(texts, resume))
            said = end.text or said
            self._run_count = await self._parts.turns.count_run(self._lease.claim)
            ending = ending_of(replace(end, text=said))
            if ending is not None:
                return ending
            texts, resume = (CONTINUE,), True

    async def begin(self) -> None:
        """Have `turn.started` in the log, and know what the turn takes and until when it lasts."""
        now = self._parts.clock.now()
        deadline_at = turn_deadline(self._session, now)
        self.turn = await self._parts.turns.begin(self._lease.claim, now, deadline_at)

    async def _start_over(self, error: Exception, step: TryAgain) -> None:
        claim = self._lease.claim
        code = error.code if isinstance(error, OpenComputerError) else OpenComputerError.code
        body = {"summary": "The turn starts over.", "code": code, "attempt": claim.attempt}
        key = f"restart:{claim.turn_id}:{claim.attempt}"
        event = NewEvent(RUNTIME_RESTARTED, Level.INTERNAL, body, actor=SYSTEM, key=key)
        await self._parts.turns.append(claim, [event], self._parts.clock.now())
        if self.brain is not None:
            await self._parts.boxes.kill_brain(self._session)
        await self._parts.clock.sleep(step.pause_seconds)
        claim = await self._lease.retry()
        self.turn = replace(self.turn, attempt=claim.attempt)


def _ended(error: Exception) -> Ending:
    step = after_failure(error, attempts=1)
    assert isinstance(step, Ending)
    return step


def _tell(error: Exception, turn: Turn, step: TryAgain | Ending) -> None:
    next_step = "tries again" if isinstance(step, TryAgain) else "gives up"
    if isinstance(error, OpenComputerError):
        reason = error.message
        _log.warning("an attempt of a turn failed", turn=turn.id, reason=reason, next=next_step)
    else:
        _log.error("an attempt of a turn failed", turn=turn.id, next=next_step, exc_info=error)
