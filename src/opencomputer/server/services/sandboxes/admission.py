"""Whether the host has room for one more machine or a larger one, and how many may start at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from opencomputer.server.contracts.host import HostGauge
from opencomputer.server.domain.capacity import AdmissionPolicy, growth_refusal, refusal
from opencomputer.server.domain.errors import NoCapacity
from opencomputer.server.services.sandboxes.provisioning import Provisioning


class Admission:
    """Every start of a machine passes here, whatever it is for.

    `parallel_starts` bounds how many machines start at once: more only delay each other.
    """

    def __init__(
        self, policy: AdmissionPolicy, gauge: HostGauge, provisioning: Provisioning, *, parallel_starts: int
    ) -> None:
        self._policy = policy
        self._gauge = gauge
        self._provisioning = provisioning
        self._starts = asyncio.Semaphore(parallel_starts)

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None]:
        """Start one machine inside. Raises NoCapacity."""
        async with self._starts:
            load = await asyncio.to_thread(self._gauge.load, self._provisioning.count)
            if (reason := refusal(self._policy, load)) is not None:
                raise NoCapacity(f"no capacity: {reason}")
            yield

    async def check_growth(self) -> None:
        """Whether a machine may get more memory now. Raises NoCapacity."""
        load = await asyncio.to_thread(self._gauge.load, self._provisioning.count)
        if (reason := growth_refusal(self._policy, load)) is not None:
            raise NoCapacity(f"no capacity: {reason}")
