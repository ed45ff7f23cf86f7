"""How often something may happen within a minute."""

from __future__ import annotations

import math
from collections import deque

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.domain.errors import RateLimited

_WINDOW_SECONDS = 60.0
_SWEEP_FROM = 1000


class Bursts:
    """Counts in memory, for this node: `most` within any minute of each thing by its name."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._taken: dict[str, deque[float]] = {}

    def take(self, name: str) -> None:
        """Raises RateLimited, which says when there is room again."""
        now = self._clock.monotonic()
        if len(self._taken) >= _SWEEP_FROM and name not in self._taken:
            self._sweep(now)
        taken = self._taken.setdefault(name, deque())
        while taken and taken[0] <= now - _WINDOW_SECONDS:
            taken.popleft()
        if len(taken) >= self._most:
            error = RateLimited(f"at most {self._most} requests a minute are taken here; wait a little")
            error.retry_after_seconds = max(1, math.ceil(taken[0] + _WINDOW_SECONDS - now))
            raise error
        taken.append(now)

    def _sweep(self, now: float) -> None:
        for name in [each for each, taken in self._taken.items() if taken[-1] <= now - _WINDOW_SECONDS]:
            del self._taken[name]
