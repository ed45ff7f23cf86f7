"""The event loop that runs for those who block: one a process, on a thread of its own.

It starts with the first call and ends with the process. A fork leaves it behind: the child gets its own at
its first call, and what was made before the fork belongs to the parent (see `Twin`).
"""

from __future__ import annotations

import asyncio
import atexit
import math
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_CLEANUP_SECONDS = 5.0
_LOOK_UP_SECONDS = 0.25


class LoopThread:
    """An event loop on a daemon thread. Every coroutine of the asynchronous SDK runs on it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._serve, name="opencomputer loop", daemon=True)
        self._thread.start()

    def run(self, awaitable: Awaitable[T]) -> T:
        """Run it to its end while this thread waits.

        What interrupts the waiting, Ctrl-C above all, cancels it; once it has cleaned up, the interruption
        goes on.
        """
        if threading.current_thread() is self._thread:
            discard(awaitable)
            raise RuntimeError("a coroutine on the SDK's own loop may not block it: use opencomputer there")
        outcome = _Outcome[T]()
        call = Call(self._loop, self._tasks, awaitable, outcome.settle)
        # An interruption may come between any two steps: starting belongs to what it undoes.
        try:
            call.start()
            outcome.wait()
        except BaseException:
            call.cancel()
            outcome.wait(_CLEANUP_SECONDS)
            raise
        return outcome.result()

    def begin(self, awaitable: Awaitable[T]) -> Future[T]:
        """Start it; the future is for any thread."""
        future: Future[T] = Future()
        Call(self._loop, self._tasks, awaitable, lambda task: _hand_over(task, future)).start()
        return future

    async def awaited(self, awaitable: Awaitable[T]) -> T:
        """Run it to its end while the caller's own loop goes on. Cancelling the caller cancels it."""
        future: Future[T] = Future()
        call = Call(self._loop, self._tasks, awaitable, lambda task: _hand_over(task, future))
        call.start()
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            call.cancel()
            raise

    def stop(self) -> None:
        """Cancel everything, let it clean up for a moment, and end the thread."""
        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._wind_up()))
        self._thread.join(2 * _CLEANUP_SECONDS)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _wind_up(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=_CLEANUP_SECONDS)
        self._loop.stop()


class Call(Generic[T]):
    """One awaitable on its way through the loop. Nothing happens before it is started.

    At its end `settle` gets the task, on the loop's thread; None when there never was one.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        running: set[asyncio.Task[Any]],
        awaitable: Awaitable[T],
        settle: Callable[[asyncio.Task[T] | None], None],
    ) -> None:
        self._loop = loop
        self._running = running
        self._awaitable = awaitable
        self._settle = settle
        self._task: asyncio.Task[T] | None = None

    def start(self) -> None:
        self._loop.call_soon_threadsafe(self._start)

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(self._cancel)

    def _start(self) -> None:
        self._task = self._loop.create_task(_awaited(self._awaitable))
        self._running.add(self._task)
        self._task.add_done_callback(self._running.discard)
        self._task.add_done_callback(self._settle)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:
            discard(self._awaitable)
            self._settle(None)


class _Outcome(Generic[T]):
    """What a thread waits for that signals may interrupt.

    A bare lock, because those of `concurrent.futures` may stay taken for ever when an interruption comes
    between two of their own steps.
    """

    def __init__(self) -> None:
        self._unsettled = threading.Lock()
        self._unsettled.acquire()
        self._is_settled = False
        self._task: asyncio.Task[T] | None = None

    def settle(self, task: asyncio.Task[T] | None) -> None:
        self._task = task
        self._is_settled = True
        self._unsettled.release()

    def wait(self, timeout: float = math.inf) -> None:
        # A signal interrupts no waiting that is just about to begin, and none when another thread gets it:
        # that it came is seen when the waiting ends, so that it ends from time to time.
        end = time.monotonic() + timeout
        while not self._is_settled and (left := end - time.monotonic()) > 0:
            if self._unsettled.acquire(timeout=min(left, _LOOK_UP_SECONDS)):
                return

    def result(self) -> T:
        if self._task is None or self._task.cancelled():
            raise CancelledError
        return self._task.result()


def discard(awaitable: Awaitable[object]) -> None:
    """Take note that something will not be awaited."""
    if isinstance(awaitable, Coroutine):
        awaitable.close()


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable


def _hand_over(task: asyncio.Task[T] | None, future: Future[T]) -> None:
    error = CancelledError() if task is None or task.cancelled() else task.exception()
    with suppress(InvalidStateError):  # whoever had the future has cancelled it
        if task is None or error is not None:
            future.set_exception(error)
        else:
            future.set_result(task.result())


class _Process:
    """What there is once a process. `generation` counts the forks that led to it."""

    def __init__(self) -> None:
        self.generation = 0
        self.loop: LoopThread | None = None
        self.left_behind: list[LoopThread] = []
        self.lock = threading.Lock()
        self.ending = False

    def running_loop(self) -> LoopThread:
        with self.lock:
            if self.ending:
                raise RuntimeError("the interpreter is ending: opencomputer.blocking has stopped")
            if self.loop is None:
                self.loop = LoopThread()
            return self.loop

    def forked(self) -> None:
        # Held on to, because closing it would take the parent's sockets off the poll that both share. The
        # lock is a new one: another thread may have held the old, and that thread is not here.
        if self.loop is not None:
            self.left_behind.append(self.loop)
        self.loop = None
        self.lock = threading.Lock()
        self.generation += 1

    def end(self) -> None:
        with self.lock:
            self.ending = True
            loop, self.loop = self.loop, None
        if loop is not None:
            loop.stop()


_process = _Process()
atexit.register(_process.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.forked)


def generation() -> int:
    """How many forks lie behind this process."""
    return _process.generation


def begin(awaitable: Awaitable[T]) -> Future[T]:
    """Start something; the future is for any thread."""
    return _process.running_loop().begin(awaitable)


async def awaited(awaitable: Awaitable[T]) -> T:
    """Run something there while the caller's own loop goes on. Cancelling the caller cancels it."""
    return await _process.running_loop().awaited(awaitable)


def run(awaitable: Awaitable[T]) -> T:
    """Run something to its end while this thread waits; see `LoopThread.run`."""
    return _process.running_loop().run(awaitable)
