"""Removing secrets that were deleted, once the last sandbox that holds them has ended."""

from __future__ import annotations

from datetime import timedelta

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.secrets import HoldingRows
from opencomputer.server.services.repeating import repeat

_log = structlog.get_logger(__name__)

_PAUSE_SECONDS = 300.0
_GRACE = timedelta(minutes=10)
"""A create that found a secret just before it was deleted has written by then that it holds it."""


class SecretUpkeep:
    def __init__(self, holdings: HoldingRows, clock: Clock) -> None:
        self._holdings = holdings
        self._clock = clock

    async def keep(self) -> None:
        """Sweep until cancelled."""
        await repeat(
            self.sweep,
            self._clock,
            pause_seconds=_PAUSE_SECONDS,
            complaint="deleted secrets were not removed; the next sweep tries again",
            at_once=True,
        )

    async def sweep(self) -> int:
        removed = await self._holdings.sweep(self._clock.now() - _GRACE)
        if removed:
            _log.info("removed secrets that were deleted and that nobody holds any more", count=removed)
        return removed
