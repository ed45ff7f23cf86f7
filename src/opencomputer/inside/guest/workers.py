"""A few threads for what may block on a disk, so that the loop never does."""

from __future__ import annotations

import threading
from collections import deque

from .loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Result = TypeVar("Result")

_THREADS = 4


class Workers:
    """Runs short steps in order of submission, started on first use.

    A step must not wait for a peer: a slow reader or writer holds memory, never a thread.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._steps: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._idle = 0
        self._threads = 0

    def submit(
        self,
        step: Callable[[], Result],
        done: Callable[[Result], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Run `step` in a thread; then `done(its result)` or `failed(its error)` in the loop."""

        def work() -> None:
            try:
                result = step()
            except Exception as error:
                # Bound as a default: the name `error` is gone when the loop calls.
                self._loop.call_from_thread(lambda error=error: failed(error))
            else:
                self._loop.call_from_thread(lambda: done(result))

        with self._changed:
            self._steps.append(work)
            if self._idle == 0 and self._threads < _THREADS:
                self._threads += 1
                threading.Thread(target=self._serve, daemon=True).start()
            else:
                self._changed.notify()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while not self._steps:
                    self._changed.wait()
                self._idle -= 1
                work = self._steps.popleft()
            work()
