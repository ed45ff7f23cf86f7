"""How much memory sandboxes really use, written down once a minute, all in one batch; old usage is removed.

What was written is left alone as long as it is still true, so that a thousand idle sandboxes cost next to
nothing. With each batch goes a note that the node was there: see `Reconciler`.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from weakref import WeakKeyDictionary

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.usage import UsageStore
from opencomputer.server.domain.errors import MachineLost
from opencomputer.server.domain.metering import MemorySample, second_of
from opencomputer.server.domain.usage_series import MINUTE, SAMPLE_HOLDS_MINUTES
from opencomputer.server.services.repeating import repeat
from opencomputer.server.services.sandboxes.live import LiveSandbox, LiveSandboxes

_log = structlog.get_logger(__name__)

SAMPLES_DAYS = 30
"""As far back as one may ask for minutes."""
_LEAST_CHANGE_KIB = 1024
_REPEAT_SECONDS = (SAMPLE_HOLDS_MINUTES - 5) * MINUTE
_PRUNE_SECONDS = 3600.0
_READ_AT_ONCE = 100


class UsageSampler:
    """`age` is how long intervals are kept after they ended."""

    def __init__(self, store: UsageStore, live: LiveSandboxes, clock: Clock, age: timedelta) -> None:
        self._store = store
        self._live = live
        self._clock = clock
        self._age = age
        # By machine: one that woke or was rebooted begins anew.
        self._written: WeakKeyDictionary[LiveSandbox, MemorySample] = WeakKeyDictionary()

    async def keep(self) -> None:
        """Sample and prune until cancelled, from now on: what was adopted is known to run."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(
                    repeat(
                        self.sample,
                        self._clock,
                        pause_seconds=MINUTE,
                        complaint="no usage was written down; the next samples are taken in a minute",
                        at_once=True,
                    )
                )
                group.create_task(
                    repeat(
                        self.prune,
                        self._clock,
                        pause_seconds=_PRUNE_SECONDS,
                        complaint="old usage was not removed",
                    )
                )
        finally:
            # The last that is known of sandboxes which run on without a server.
            await self._store.note(second_of(self._clock.now()), [])

    async def sample(self) -> None:
        """Look at every sandbox that runs, and write down what has changed."""
        second = second_of(self._clock.now())
        taken: dict[LiveSandbox, MemorySample] = {}
        every = list(self._live)
        for first in range(0, len(every), _READ_AT_ONCE):
            some = every[first : first + _READ_AT_ONCE]
            for live, sample in zip(
                some, await asyncio.gather(*(_look(live, second) for live in some)), strict=True
            ):
                if sample is not None and self._is_news(live, sample):
                    taken[live] = sample
        await self._store.note(second, list(taken.values()))
        self._written.update(taken)

    def _is_news(self, live: LiveSandbox, sample: MemorySample) -> bool:
        last = self._written.get(live)
        if last is None or sample.second - last.second >= _REPEAT_SECONDS:
            return True
        return abs(sample.kib - last.kib) >= _LEAST_CHANGE_KIB

    async def prune(self) -> None:
        now = self._clock.now()
        pruned = await self._store.prune(
            intervals_before=second_of(now - self._age),
            samples_before=second_of(now - timedelta(days=SAMPLES_DAYS, hours=1)),
        )
        if pruned:
            _log.info("old usage removed", rows=pruned)


async def _look(live: LiveSandbox, second: int) -> MemorySample | None:
    try:
        usage = await live.machine.usage()
    except (MachineLost, OSError, ValueError):
        return None  # what became of the machine is for others to find out
    return MemorySample(live.id, second, usage.memory_bytes >> 10)
