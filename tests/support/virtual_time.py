"""An event loop whose time passes only when everything waits: hours of waiting take no time at all.

Threads and sockets still take the time they take; virtual time stands still meanwhile.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_BEGIN = 1000.0
_STUCK_SECONDS = 10.0


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._now = _BEGIN
        self._threads = 0
        super().__init__(_ImpatientSelector(self))

    def time(self) -> float:
        return self._now

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> Any:
        self._threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _future: object) -> None:
        self._threads -= 1

    @contextmanager
    def standing_still(self) -> Generator[None]:
        """No time passes while this is open: somebody waits for a thread that the loop does not know of."""
        self._threads += 1
        try:
            yield
        finally:
            self._threads -= 1

    @property
    def is_waiting_for_threads(self) -> bool:
        return self._threads > 0

    def pass_time(self, seconds: float) -> None:
        self._now += seconds


class _ImpatientSelector(selectors.DefaultSelector):
    """Where a real selector would wait for a timer, this one moves the clock to it."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or self._loop.is_waiting_for_threads:
            events = super().select(_STUCK_SECONDS if timeout is None or timeout > 0 else 0)
            if not events and timeout is None:
                raise RuntimeError("everything waits for something that never comes")
            return events
        events = super().select(0)
        if not events and timeout > 0:
            self._loop.pass_time(timeout)
        return events


class VirtualClock:
    """Implements Clock by the running loop's virtual time."""

    def now(self) -> datetime:
        return _EPOCH + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return _running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _running_loop() -> VirtualTimeLoop:
    return cast("VirtualTimeLoop", asyncio.get_running_loop())


def virtual_backend() -> tuple[str, dict[str, Any]]:
    """For the fixture `anyio_backend`."""
    return "asyncio", {"loop_factory": VirtualTimeLoop}
