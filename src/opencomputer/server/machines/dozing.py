"""Freezes a machine in which nothing runs while nobody talks to it, and thaws it for the next who does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.domain.errors import OpenComputerError

IDLE_SECONDS = 1.0
RECHECK_SECONDS = 10.0
"""How often a machine with user processes is asked whether they have ended."""


class Freezable(Protocol):
    async def freeze(self) -> None: ...

    async def thaw(self) -> None: ...


class Dozing:
    """Counts who needs the machine awake. A freeze never catches one of them.

    `has_processes` asks the guest; it is called while the machine is awake.
    """

    def __init__(
        self, running: Freezable, clock: Clock, has_processes: Callable[[], Awaitable[bool]]
    ) -> None:
        self._running = running
        self._clock = clock
        self._has_processes = has_processes
        self._users = 0
        self._frozen = True
        """Until the first thaw nobody knows: an earlier server may have frozen the machine."""
        self._changing = asyncio.Lock()
        self._last_use = clock.monotonic()
        self._sleeper: asyncio.Task[None] | None = None

    @property
    def frozen(self) -> bool:
        """It gets no CPU, as far as is known."""
        return self._frozen

    @asynccontextmanager
    async def awake(self) -> AsyncGenerator[None]:
        """The machine runs inside this context."""
        self._users += 1
        try:
            if self._frozen or self._changing.locked():
                await self._thaw()
            yield
        finally:
            self._users -= 1
            self._last_use = self._clock.monotonic()
            if self._users == 0 and self._sleeper is None:
                self._sleeper = asyncio.create_task(self._sleep_when_idle())

    async def rest(self) -> bool:
        """Freeze now if nobody needs the machine and no process runs in it. Whether it is frozen."""
        async with self._changing:
            if self._users or self._frozen:
                return self._frozen
            if await self._has_processes() or self._users:
                return False
            # Said first: should the freeze be interrupted, the next use thaws.
            self._frozen = True
            await self._running.freeze()
            return True

    async def close(self) -> None:
        """Never freeze again by itself."""
        self._users += 1
        if self._sleeper is not None:
            self._sleeper.cancel()
            await asyncio.wait([self._sleeper])

    async def _thaw(self) -> None:
        async with self._changing:
            if self._frozen:
                await self._running.thaw()
                self._frozen = False

    async def _sleep_when_idle(self) -> None:
        try:
            await self._wait_and_rest()
        except OpenComputerError:
            pass  # the machine has ended, or does not answer: the next who uses it will be told
        finally:
            # Here and not in a callback: the next use must see at once that nobody watches any more.
            self._sleeper = None

    async def _wait_and_rest(self) -> None:
        pause = IDLE_SECONDS
        while True:
            await self._clock.sleep(pause)
            if self._users:
                return
            idle_for = self._clock.monotonic() - self._last_use
            if idle_for < IDLE_SECONDS:
                pause = IDLE_SECONDS - idle_for
                continue
            if await self.rest():
                return
            pause = RECHECK_SECONDS
