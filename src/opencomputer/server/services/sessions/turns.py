"""One turn from its claim to its end (agent-sessions.md sections 4.4 to 4.9)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import structlog

from opencomputer.server.contracts.sessions import Fenced
from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.domain.sessions.endings import INTERRUPTED, Ending, Interrupt
from opencomputer.server.domain.sessions.events import AGENT_MESSAGE, Level, NewEvent
from opencomputer.server.domain.sessions.session import Completion, Session, Turn, YieldReason
from opencomputer.server.services.sessions.attempts import Attempts
from opencomputer.server.services.sessions.health import GRACE_SECONDS, falls_silent
from opencomputer.server.services.sessions.lease import Lease
from opencomputer.server.services.sessions.turn_parts import TurnParts, has_told_user
from opencomputer.wire.ids import SnapshotId

_log = structlog.get_logger(__name__)

KEEP_SECONDS = 60.0
"""How long saving a brain's state or the hands may take at the end of a turn."""
_FINISH_SECONDS = 15.0
_RETRY_SECONDS = 0.5
_CLOSING_SECONDS = 15.0
"""How long tools have to note what becomes of calls in flight."""

_T = TypeVar("_T")


class TurnRunner:
    """Runs the turn of a claim. What it cannot finish, it leaves so that the next owner can."""

    def __init__(self, parts: TurnParts) -> None:
        self._parts = parts

    async def run(self, lease: Lease, session: Session, turn: Turn) -> None:
        """Run a turn to its end; return silently when somebody else has it now.

        Cancelled, it gives the turn back, unless it has come to its end already: then that is written down.
        """
        async with lease:
            lease.expect_by(turn.deadline_at)
            attempts = Attempts(self._parts, lease, session, turn)
            try:
                ending = await self._ending(lease, attempts, session)
                if ending is not None:
                    await _finished(self._complete(lease, attempts, session, ending))
            except Fenced:
                return
            except asyncio.CancelledError:
                await self._parts.turns.release(lease.claim)
                raise

    async def _ending(self, lease: Lease, attempts: Attempts, session: Session) -> Ending | None:
        before = _interrupted_before(attempts.turn, self._parts)
        if before is not None:
            if attempts.turn.started_at is not None:
                # Who had it may have left a brain that still works.
                await self._parts.boxes.kill_brain(session)
            return INTERRUPTED[before]
        work = asyncio.create_task(attempts.ending(), name=f"turn {attempts.turn.id}")
        stop = asyncio.create_task(lease.interrupted())
        try:
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            given_up = not work.done()
            if given_up:
                await self._give_up(work, session)
        if not given_up:
            return work.result()
        return await self._interrupted(stop.result(), attempts, session)

    async def _give_up(self, work: asyncio.Task[Ending], session: Session) -> None:
        work.cancel()
        if not (await asyncio.wait({work}, timeout=GRACE_SECONDS))[0]:
            await self._parts.boxes.kill_brain(session)
            await asyncio.wait({work}, timeout=_CLOSING_SECONDS)

    async def _interrupted(self, why: Interrupt, attempts: Attempts, session: Session) -> Ending | None:
        attempts.broke_off()
        if why is Interrupt.FENCED:
            return None
        brain = attempts.brain
        if brain is not None and (
            why is Interrupt.DEADLINE or not await falls_silent(brain, self._parts.clock)
        ):
            await self._parts.boxes.kill_brain(session)
        return INTERRUPTED[why]

    async def _complete(self, lease: Lease, attempts: Attempts, session: Session, ending: Ending) -> None:
        if attempts.turn.started_at is None:
            await attempts.begin()
        turn = attempts.turn
        told = await has_told_user(self._parts.log, turn)
        completion = Completion(
            reason=ending.reason,
            at=self._parts.clock.now(),
            usage=attempts.usage,
            error=ending.error,
            failed=ending.failed,
        )
        if attempts.brain is not None:
            completion = await self._with_state(completion, session, turn)
        events = [*ending.events, *(() if told else _promoted(ending))]
        await self._write(lease, replace(completion, at=self._parts.clock.now()), events)

    async def _with_state(self, completion: Completion, session: Session, turn: Turn) -> Completion:
        now = await self._parts.sessions.find(session.id) or session
        boxes = self._parts.boxes
        kept = await _kept(boxes.keep_state(now, turn.id), turn, otherwise=False)
        checkpoint = await _kept(boxes.checkpoint(now, turn.id), turn, otherwise=None)
        return replace(
            completion, state_kept=kept, checkpoint=SnapshotId(checkpoint) if checkpoint is not None else None
        )

    async def _write(self, lease: Lease, completion: Completion, events: Sequence[NewEvent]) -> None:
        while True:
            try:
                await self._parts.turns.complete(lease.claim, completion, events)
                return
            except OpenComputerError:
                raise
            except Exception:
                if not lease.held:
                    raise
                _log.exception("a turn's end was not written; it is tried again", turn=lease.claim.turn_id)
            await self._parts.clock.sleep(_RETRY_SECONDS)


def _interrupted_before(turn: Turn, parts: TurnParts) -> Interrupt | None:
    if turn.cancel_requested_at is not None:
        return Interrupt.CANCELED
    if turn.deadline_at is not None and parts.clock.now() >= turn.deadline_at:
        return Interrupt.DEADLINE
    return None


def _promoted(ending: Ending) -> Sequence[NewEvent]:
    """The last that the model said, as its result, where it told the user nothing."""
    if ending.reason is not YieldReason.COMPLETED or ending.said is None:
        return ()
    return (NewEvent(AGENT_MESSAGE, Level.USER, {"text": ending.said}),)


async def _kept(saving: Awaitable[_T], turn: Turn, *, otherwise: _T) -> _T:
    try:
        async with asyncio.timeout(KEEP_SECONDS):
            return await saving
    except (OpenComputerError, TimeoutError, OSError) as error:
        _log.warning("what a turn leaves was not saved", turn=turn.id, reason=str(error))
        return otherwise


async def _finished(work: Coroutine[Any, Any, None]) -> None:
    """Do work; when cancelled, only after it has had some time to be done."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=_FINISH_SECONDS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
