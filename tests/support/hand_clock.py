"""A clock that a test sets by hand."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta


class HandClock:
    """Implements Clock. Sleeping lets others run once and takes no time."""

    def __init__(self) -> None:
        self._seconds = 1000.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        return self._seconds

    async def sleep(self, seconds: float) -> None:
        del seconds
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        self._seconds += seconds
