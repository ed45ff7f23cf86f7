"""The one place that collects the status of dead children, adopted orphans included."""

from __future__ import annotations

import os
import time

_SECONDS_AT_ONCE = 0.02
_SLOW_SECONDS = 0.1
_PAUSE_FACTOR = 4
_LONGEST_PAUSE = 1.0

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .loop import Loop, Timer

    _Owner = tuple[Callable[[int], None], Callable[[int], None] | None]


class Children:
    """Tells each started process's owner how it ended.

    A process must be registered before the loop runs on after its start: `reap` is called by the loop only,
    in the thread that starts processes, so a status can come neither too early nor to somebody else.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._owners: dict[int, _Owner] = {}
        self._pause: Timer | None = None
        self.tell_stops = True
        """Off while all processes are stopped for a reason that is none of their owners' business."""

    def register(
        self, pid: int, ended: Callable[[int], None], stopped: Callable[[int], None] | None = None
    ) -> None:
        """Call `ended(wait status)` once, when `pid` has ended, and `stopped(signal)` when it stops."""
        self._owners[pid] = (ended, stopped)

    def reap(self) -> None:
        """Collect children that are dead now; under a flood of them some now and more later.

        A fork bomb makes orphans faster than anybody can collect them, and one call may take ten seconds: it
        waits for the lock that every fork needs. The timer that ends the bomb must not wait as long.
        """
        if self._pause is not None:
            return
        begun = time.monotonic()
        while time.monotonic() < begun + _SECONDS_AT_ONCE:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._tell(pid, status)
        if (took := time.monotonic() - begun) < _SLOW_SECONDS:
            self._loop.call_soon(self.reap)
        else:
            self._pause = self._loop.call_later(min(_LONGEST_PAUSE, took * _PAUSE_FACTOR), self._go_on)

    def _go_on(self) -> None:
        self._pause = None
        self.reap()

    def _tell(self, pid: int, status: int) -> None:
        if os.WIFSTOPPED(status):
            _, stopped = self._owners.get(pid, (None, None))
            if stopped is not None and self.tell_stops:
                stopped(os.WSTOPSIG(status))
            return
        ended, _ = self._owners.pop(pid, (None, None))
        if ended is not None:
            ended(status)
