"""The one place that collects the status of dead children, adopted orphans included."""

from __future__ import annotations

import os
import time

_SECONDS_AT_ONCE = 0.02

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .loop import Loop

    _Owner = tuple[Callable[[int], None], Callable[[int], None] | None]


class Children:
    """Tells each started process's owner how it ended.

    A process must be registered before the loop runs on after its start: `reap` is called by the loop only,
    in the thread that starts processes, so a status can come neither too early nor to somebody else.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._owners: dict[int, _Owner] = {}
        self.tell_stops = True
        """Off while all processes are stopped for a reason that is none of their owners' business."""

    def register(
        self, pid: int, ended: Callable[[int], None], stopped: Callable[[int], None] | None = None
    ) -> None:
        """Call `ended(wait status)` once, when `pid` has ended, and `stopped(signal)` when it stops."""
        self._owners[pid] = (ended, stopped)

    def reap(self) -> None:
        """Collect children that are dead now; under a flood of them some now and more in the next turn.

        A fork bomb makes orphans faster than anybody can collect them, and each call may take a fifth of a
        second; the timer that ends the bomb must still fire.
        """
        enough = time.monotonic() + _SECONDS_AT_ONCE
        while time.monotonic() < enough:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._tell(pid, status)
        self._loop.call_soon(self.reap)

    def _tell(self, pid: int, status: int) -> None:
        if os.WIFSTOPPED(status):
            _, stopped = self._owners.get(pid, (None, None))
            if stopped is not None and self.tell_stops:
                stopped(os.WSTOPSIG(status))
            return
        ended, _ = self._owners.pop(pid, (None, None))
        if ended is not None:
            ended(status)
