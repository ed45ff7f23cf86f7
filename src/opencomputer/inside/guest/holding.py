"""Keeping all user processes still while the machine is saved, so that a copy can be told who it is first.

A copy begins with the processes as they were held, and lets them go on once it has its new identity. The
original lets them go on when it has been saved.

Nobody must notice but by the time that passes. A shell that sees a child stop says so and takes its terminal
back: so parents are stopped before their children, and go on after them.
"""

from __future__ import annotations

import os
import signal
import time

from .connections import count_connections
from .loop import Loop, Timer, log
from .trees import ProcessEntry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .children import Children
    from .requests import Request
    from .trees import Trees

LONGEST_SECONDS = 300.0
"""A host that asked and was never heard of again must not leave everything stopped for ever."""
_MOST_SECONDS = 1.0
"""How long we try to catch everything; a fork bomb may get away."""
_PATIENCE_SECONDS = 0.02
"""A process that does not stop for so long waits for something in the kernel, and stops before it runs on."""
_PAUSE_SECONDS = 0.0005


class Holder:
    """Stops user processes that run, and knows which ones, so that those the user stopped stay stopped."""

    def __init__(self, loop: Loop, trees: Trees, children: Children) -> None:
        self._loop = loop
        self._trees = trees
        self._children = children
        self._end: Timer | None = None
        self._held: dict[int, float] = {}

    def hold(self, request: Request) -> None:
        self._start_over()
        still = self._hold_all()
        if not still:
            log("not every process has stopped in time")
        os.sync()
        # Who still runs may open another connection before the machine is paused: then nothing is known.
        request.reply({"connections": count_connections()} if still else {})

    def release(self, request: Request) -> None:
        self.let_go()
        request.reply({})

    def let_go(self) -> None:
        """Let everything that is held go on. Idempotent."""
        if self._end is not None:
            self._end.cancel()
        held, self._held = self._held, {}
        if held:
            for pid in children_first(self._trees.user_processes(), set(held)):
                _send(pid, signal.SIGCONT)
        self._children.tell_stops = True

    def _start_over(self) -> None:
        if self._end is not None:
            self._end.cancel()
        self._end = self._loop.call_later(LONGEST_SECONDS, self.let_go)

    def _hold_all(self) -> bool:
        self._children.tell_stops = False
        entries = self._trees.user_processes()
        users_own = {entry.pid for entry in entries if entry.stopped and entry.pid not in self._held}
        enough = time.monotonic() + _MOST_SECONDS
        while (now := time.monotonic()) < enough:
            running = {entry.pid for entry in entries if not entry.stopped} - users_own
            still = {
                pid for pid in self._held if pid not in running or now - self._held[pid] > _PATIENCE_SECONDS
            }
            if running <= still:
                return not running
            due = due_to_stop(entries, running - self._held.keys(), running - still)
            for pid in due:
                self._held[pid] = now
                _send(pid, signal.SIGSTOP)
            if not due:
                time.sleep(_PAUSE_SECONDS)
            entries = self._trees.user_processes()
        return False


def due_to_stop(entries: list[ProcessEntry], untold: set[int], moving: set[int]) -> list[int]:
    """Who of the `untold` can be stopped now: those whose parent cannot notice, because it does not move."""
    return [entry.pid for entry in entries if entry.pid in untold and entry.parent not in moving]


def children_first(entries: list[ProcessEntry], wanted: set[int]) -> list[int]:
    """Those of `wanted` that are there, each behind all of its descendants."""
    parents = {entry.pid: entry.parent for entry in entries}

    def depth(pid: int) -> int:
        steps = 0
        while pid in parents and steps < len(parents):
            pid = parents[pid]
            steps += 1
        return steps

    return sorted(wanted & parents.keys(), key=depth, reverse=True)


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass
