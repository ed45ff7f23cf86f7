"""Time and chance as dependencies, so that tests own them."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock, aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        ...

    async def sleep(self, seconds: float) -> None: ...
