"""How much a sandbox uses right now."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.driver import Usage
from opencomputer.server.services.sandboxes.live import LiveSandbox


@dataclass(frozen=True)
class UsageReading:
    """`cpu_percent` is the average since the previous reading, 100 per core in full use."""

    usage: Usage
    cpu_percent: float


class UsageReader:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: WeakKeyDictionary[LiveSandbox, tuple[float, float]] = WeakKeyDictionary()

    async def read(self, live: LiveSandbox) -> UsageReading:
        usage = await live.machine.usage()
        now = self._clock.monotonic()
        then, cpu_then = self._last.get(live, (now, usage.cpu_seconds))
        self._last[live] = (now, usage.cpu_seconds)
        elapsed = now - then
        percent = 100 * (usage.cpu_seconds - cpu_then) / elapsed if elapsed > 0 else 0.0
        return UsageReading(usage, round(percent, 1))
