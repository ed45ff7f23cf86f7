"""Sandboxes that are given more memory when they need it, and less when they do not (behaviour 27.3).

What is settled stands in their rows: that they scale, between which sizes, and until when they pause. How
much they used lately is only remembered: after a wake or a restart of the server that begins anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import structlog

from opencomputer.server.domain.elasticity import (
    SAMPLE_SECONDS,
    MemoryWindow,
    Step,
    allowed_bounds,
    may_step,
)
from opencomputer.server.domain.errors import MachineLost, OpenComputerError
from opencomputer.server.domain.sandbox import Sandbox
from opencomputer.server.services.repeating import repeat
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.machinery import Machinery
from opencomputer.server.services.sandboxes.scaling import Scaling

_log = structlog.get_logger(__name__)


class Autoscaling:
    """Looks at the memory of every sandbox that autoscales, twice a minute."""

    def __init__(self, machinery: Machinery, scaling: Scaling, memory_cap_mb: int | None) -> None:
        self._sandboxes = machinery.sandboxes
        self._live = machinery.live
        self._transitions = machinery.transitions
        self._clock = machinery.clock
        self._background = machinery.background
        self._scaling = scaling
        self._cap_mb = memory_cap_mb
        # By machine: one that woke or was rebooted has no past.
        self._windows: WeakKeyDictionary[LiveSandbox, MemoryWindow] = WeakKeyDictionary()

    async def keep(self) -> None:
        """Look until cancelled."""
        await repeat(
            self.look,
            self._clock,
            pause_seconds=SAMPLE_SECONDS,
            complaint="no memory was looked at; the next look comes in half a minute",
        )

    async def look(self) -> None:
        """Take a sample of each, and begin with the steps that follow from them."""
        rows: Sequence[Sandbox] = await self._sandboxes.autoscaled()
        served = [(row, live) for row in rows if (live := self._live.get(row.org_id, row.id)) is not None]
        await asyncio.gather(*(self._consider(row, live) for row, live in served))

    async def _consider(self, row: Sandbox, live: LiveSandbox) -> None:
        try:
            used = (await live.machine.usage()).memory_bytes
        except (MachineLost, OSError, ValueError):
            return  # no sample; what became of the machine is for others to find out
        window = self._windows.setdefault(live, MemoryWindow())
        window.add(self._clock.monotonic(), used)
        step = window.step(
            row.shape.memory_mb, allowed_bounds(row.elasticity, row.shape.memory_mb, self._cap_mb)
        )
        if step is None or self._transitions.busy(live.id):
            return
        if may_step(row.elasticity, step, self._clock.now()):
            self._background.start(self._take(live, step), name=f"autoscale {live.id}", finish=True)

    async def _take(self, live: LiveSandbox, step: Step) -> None:
        try:
            taken = await self._scaling.take_step(live, step)
        except OpenComputerError as error:
            _log.warning(
                "a sandbox was not scaled", sandbox=live.id, to_mb=step.memory_mb, reason=error.message
            )
            return
        if taken:
            _log.info("a sandbox was scaled", sandbox=live.id, to_mb=step.memory_mb)
