"""Who waits in this process for something to happen is woken, and looks what it was."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress

from opencomputer.server.domain.sessions.events import Event


class Hint:
    """Something to wait for. What happens between two waits is seen by the second one."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()
        self.count = 0
        """How often something has happened."""

    def tell_events(self, events: Sequence[Event]) -> None:
        """These are what happened, or part of it."""
        self.tell()

    def tell(self) -> None:
        self.count += 1
        self._happened.set()

    async def wait(self, seconds: float | None = None) -> bool:
        """Until something has happened since the last time; False when that took longer than `seconds`.

        Look after it has returned, not before: what happened earlier is not told again.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._happened.wait()
        happened = self._happened.is_set()
        self._happened.clear()
        return happened


class Bell:
    """Wakes everybody who listens. Belongs to one event loop."""

    def __init__(self) -> None:
        self._listening: set[Hint] = set()

    def ring(self) -> None:
        for hint in self._listening:
            hint.tell()

    @contextmanager
    def heard(self) -> Generator[Hint]:
        """Woken each time it rings."""
        hint = Hint()
        self._listening.add(hint)
        try:
            yield hint
        finally:
            self._listening.discard(hint)
