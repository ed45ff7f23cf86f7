"""The one place that collects the status of dead children, adopted orphans included."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    _Owner = tuple[Callable[[int], None], Callable[[int], None] | None]


class Children:
    """Tells each started process's owner how it ended.

    A process must be registered before the loop runs on after its start: `reap` is called by the loop only,
    in the thread that starts processes, so a status can come neither too early nor to somebody else.
    """

    def __init__(self) -> None:
        self._owners: dict[int, _Owner] = {}

    def register(
        self, pid: int, ended: Callable[[int], None], stopped: Callable[[int], None] | None = None
    ) -> None:
        """Call `ended(wait status)` once, when `pid` has ended, and `stopped(signal)` when it stops."""
        self._owners[pid] = (ended, stopped)

    def reap(self) -> None:
        """Collect every child that is dead now."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                _, stopped = self._owners.get(pid, (None, None))
                if stopped is not None:
                    stopped(os.WSTOPSIG(status))
                continue
            ended, _ = self._owners.pop(pid, (None, None))
            if ended is not None:
                ended(status)
