"""Holding on to a turn while it runs, and learning that it has to stop (agent-sessions.md 4.4, 4.6)."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from types import TracebackType

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.sessions import Fenced, TurnStore
from opencomputer.server.domain.sessions.endings import Interrupt
from opencomputer.server.domain.sessions.session import Claim
from opencomputer.server.services.hints import Hint

_log = structlog.get_logger(__name__)

LEASE_SECONDS = 30.0
RENEW_SECONDS = 10.0
_RETRY_SECONDS = 1.0


def lease_end(clock: Clock) -> datetime:
    """Until when a claim made or renewed now is held."""
    return clock.now() + timedelta(seconds=LEASE_SECONDS)


class Lease:
    """Renews a claim until left, and tells once when its turn must not go on.

    `hint` tells that something may have happened to the turn, so that it is not only seen at a renewal.
    """

    def __init__(self, turns: TurnStore, claim: Claim, clock: Clock, hint: Hint) -> None:
        self._turns = turns
        self._claim = claim
        self._clock = clock
        self._held_until = lease_end(clock)
        self._writing = asyncio.Lock()
        self._hint = hint
        self._stopped: asyncio.Future[Interrupt] = asyncio.get_running_loop().create_future()
        self._lost = False
        self._deadline_at: datetime | None = None
        self._holding: asyncio.Task[None] | None = None

    @property
    def claim(self) -> Claim:
        return self._claim

    @property
    def held(self) -> bool:
        """Nobody else can have claimed it yet, as far as this clock says."""
        return not self._lost and self._clock.now() < self._held_until

    async def __aenter__(self) -> Lease:
        self._holding = asyncio.create_task(self._hold(), name=f"lease of {self._claim.turn_id}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._holding is not None:
            self._holding.cancel()
            await asyncio.gather(self._holding, return_exceptions=True)

    def expect_by(self, deadline_at: datetime | None) -> None:
        """The turn has to be over then."""
        self._deadline_at = deadline_at
        self._hint.tell()

    async def interrupted(self) -> Interrupt:
        """Wait until the turn must not go on."""
        return await asyncio.shield(self._stopped)

    async def retry(self) -> Claim:
        """Go on with another attempt. Raises Fenced."""
        async with self._writing:
            self._claim = await self._turns.retry(self._claim)
            return self._claim

    async def _hold(self) -> None:
        pause = RENEW_SECONDS
        while not self._stopped.done():
            await self._pause(pause)
            if self._deadline_at is not None and self._clock.now() >= self._deadline_at:
                self._stop(Interrupt.DEADLINE)
            pause = RENEW_SECONDS if await self._renewed() else _RETRY_SECONDS
        while not self._lost:
            # What is left to do is done under the claim as well.
            await self._clock.sleep(RENEW_SECONDS)
            await self._renewed()

    async def _renewed(self) -> bool:
        try:
            async with self._writing:
                until = lease_end(self._clock)
                flags = await self._turns.renew(self._claim, until)
        except Fenced:
            self._lose()
        except Exception:
            _log.exception("a turn's claim was not renewed", turn=self._claim.turn_id)
            if self._clock.now() >= self._held_until:
                self._lose()
            return False
        else:
            self._held_until = until
            if flags.cancel_requested_at is not None:
                self._stop(Interrupt.CANCELED)
        return True

    async def _pause(self, seconds: float) -> None:
        if self._deadline_at is not None:
            left = (self._deadline_at - self._clock.now()).total_seconds()
            seconds = max(0.0, min(seconds, left))
        await self._hint.wait(seconds)

    def _stop(self, why: Interrupt) -> None:
        if not self._stopped.done():
            self._stopped.set_result(why)

    def _lose(self) -> None:
        self._lost = True
        self._stop(Interrupt.FENCED)
