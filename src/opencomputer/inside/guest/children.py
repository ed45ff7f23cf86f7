"""The one place that collects the status of dead children, adopted orphans included."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Children:
    """Tells each started process's owner how it ended.

    A process must be registered before the loop runs on after its start: `reap` is called by the loop only,
    in the thread that starts processes, so a status can come neither too early nor to somebody else.
    """

    def __init__(self) -> None:
        self._owners: dict[int, Callable[[int], None]] = {}

    def register(self, pid: int, ended: Callable[[int], None]) -> None:
        """Call `ended(wait status)` once, when `pid` has ended."""
        self._owners[pid] = ended

    def reap(self) -> None:
        """Collect every child that is dead now."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            owner = self._owners.pop(pid, None)
            if owner is not None:
                owner(status)
