"""Work that outlives the request which started it, with one owner that ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

import structlog

from opencomputer.server.domain.errors import OpenComputerError

_log = structlog.get_logger(__name__)

_FINISH_SECONDS = 30.0
_T = TypeVar("_T")


class Background:
    """A task group whose members may fail alone: a failure is logged, the others go on.

    On leaving, what was started to be finished gets its time, and all else is cancelled and awaited.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._to_finish: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Background:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.finish()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def finish(self) -> None:
        """Wait for what is to be finished, and for what that starts to be finished."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FINISH_SECONDS):
                while self._to_finish:
                    await asyncio.wait(self._to_finish)

    def start(self, work: Coroutine[Any, Any, Any], *, name: str, finish: bool = False) -> asyncio.Task[Any]:
        """Start work. With `finish`, leaving waits for its end as long as that takes a reasonable time."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        if finish:
            self._to_finish.add(task)
        task.add_done_callback(self._finished)
        return task

    async def carry_out(self, work: Coroutine[Any, Any, _T], *, name: str) -> _T:
        """Do work and return what it returns. It goes on when the caller gives up; leaving waits for it."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        self._to_finish.add(task)
        task.add_done_callback(self._forget)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # Nobody is told any more how it ends.
            task.add_done_callback(self._finished)
            raise

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self._to_finish.discard(task)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._forget(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, OpenComputerError):
            _log.warning("background work failed", work=task.get_name(), reason=error.message)
        elif error is not None:
            _log.error("background work failed", work=task.get_name(), exc_info=error)
