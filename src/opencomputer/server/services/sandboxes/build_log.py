"""What a build says while it goes on, for any number of readers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

MAX_LINES = 20_000
MAX_CHARACTERS = 2000


@dataclass(frozen=True)
class BuildLine:
    """One line. Steps count from 1; 0 is about the build as a whole."""

    step: int
    type: str
    message: str


Listener = Callable[[BuildLine], Awaitable[None]]


async def nobody(_line: BuildLine) -> None:
    """A listener who does not want to know."""


class BuildLog:
    """Every reader gets all lines from the first one on, at its own pace; writing never waits for one."""

    def __init__(self) -> None:
        self._lines: list[BuildLine] = []
        self._closed = False
        self._changed = asyncio.Event()

    def add(self, step: int, type: str, message: str) -> None:
        if len(self._lines) < MAX_LINES:
            self._lines.append(BuildLine(step, type, message[:MAX_CHARACTERS]))
        elif len(self._lines) == MAX_LINES:
            self._lines.append(BuildLine(step, type, "further lines are left out"))
        self._wake()

    def close(self) -> None:
        """No line will be added any more."""
        self._closed = True
        self._wake()

    async def follow(self) -> AsyncGenerator[BuildLine]:
        """All lines, until the log is closed."""
        position = 0
        while True:
            changed = self._changed
            while position < len(self._lines):
                yield self._lines[position]
                position += 1
            if self._closed and position == len(self._lines):
                return
            if changed is self._changed:
                await changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
