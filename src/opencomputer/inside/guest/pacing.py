"""Whether a process waits for its readers, as it would for the reader of a pipe.

It waits for the fastest one only, and only while that one reads on: a reader that is slow or dead never
stalls a process or the other readers. It loses what falls out of the scrollback instead. The first reader is
waited for before it has come, which takes a moment, but for the same patience only.
"""

from __future__ import annotations

PATIENCE_SECONDS = 5.0
LEAST_PROGRESS_BYTES = 1024 * 1024
"""A reader who takes less than this within the patience is not waited for."""
LEAST_BUDGET = 1024 * 1024
"""Readers acknowledge a quarter of a megabyte at once; a scrollback must be large against that."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Timer(Protocol):
        def cancel(self) -> None: ...

    class Loop(Protocol):
        def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer: ...


class Pace:
    """Calls `hold` when a process is too far ahead of its fastest reader, `release` when it no longer is.

    `budget` is how much the scrollback keeps.
    """

    def __init__(
        self, loop: Loop, budget: int, hold: Callable[[], None], release: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._most_ahead = budget * 3 // 4
        self._near_enough = budget // 2
        self._switched_on = budget >= LEAST_BUDGET
        self._hold = hold
        self._release = release
        self._timer: Timer | None = None
        self._read_at_start = 0
        self._read = 0
        self._given_up = False

    @property
    def holding(self) -> bool:
        return self._timer is not None

    def update(self, written: int, read: int | None) -> None:
        """Both are offsets; `read` is the fastest reader's, None when nobody reads."""
        if read is None or not self._switched_on:
            self._given_up = False
            self._let_go()
            return
        self._read = read
        ahead = written - read
        if ahead <= self._near_enough:
            self._given_up = False
            self._let_go()
        elif ahead > self._most_ahead and not self._given_up and not self.holding:
            self._hold()
            self._begin_patience()

    def _begin_patience(self) -> None:
        self._read_at_start = self._read
        self._timer = self._loop.call_later(PATIENCE_SECONDS, self._on_patience_end)

    def _on_patience_end(self) -> None:
        if self._read - self._read_at_start >= LEAST_PROGRESS_BYTES:
            self._begin_patience()
            return
        self._given_up = True
        self._let_go()

    def _let_go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._release()
