"""Where the caller's own code runs that may block: never on the loop.

Daemon threads, unlike those of `concurrent.futures`, because a callback that never returns must not keep the
process from ending; and as many as are needed at once, because callbacks may wait for one another.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

_Job = tuple["Future[Any]", Callable[[], Any]]


class Workers:
    """Threads that are started when all others are busy, and used again."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._idle = threading.Semaphore(0)

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Have it called on one of the threads."""
        future: Future[T] = Future()
        self._jobs.put((future, function))
        if not self._idle.acquire(blocking=False):
            threading.Thread(target=self._serve, name="opencomputer callbacks", daemon=True).start()
        return future

    def _serve(self) -> None:
        while True:
            future, function = self._jobs.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except BaseException as error:  # whoever waits for it gets it
                    future.set_exception(error)
            del future, function
            self._idle.release()


_workers = Workers()


def _forked() -> None:
    global _workers
    _workers = Workers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


async def off_the_loop(function: Callable[[], T]) -> T:
    """Call it on a thread where it may block, and wait for it without blocking the loop."""
    return await asyncio.wrap_future(_workers.submit(function))


def off_loop(callback: Callable[P, object] | None) -> Callable[P, Coroutine[Any, Any, object]] | None:
    """A callback for the asynchronous SDK that calls this one on a thread of its own.

    One call at a time for each stream, in order: the next begins when this one has returned. It sees the
    context variables of whoever gave it. An `async def` runs on the SDK's loop instead.
    """
    if callback is None:
        return None
    context = contextvars.copy_context()

    async def called(*arguments: P.args, **named: P.kwargs) -> object:
        function = partial(callback, *arguments, **named)
        outcome = await off_the_loop(lambda: context.copy().run(function))
        return await outcome if inspect.isawaitable(outcome) else outcome

    return called


_END = object()


async def fed_from(pieces: Iterable[T]) -> AsyncGenerator[T]:
    """What an ordinary iterable gives, each next piece fetched where that may block."""
    iterator = await off_the_loop(lambda: iter(pieces))
    while (piece := await off_the_loop(lambda: next(iterator, _END))) is not _END:
        yield piece  # pyright: ignore[reportReturnType] - the end has been told apart


def whole_or_fed(
    content: str | bytes | bytearray | Iterable[bytes],
) -> str | bytes | bytearray | AsyncGenerator[bytes]:
    """Text and bytes as they are, anything else piece by piece."""
    return content if isinstance(content, str | bytes | bytearray) else fed_from(content)
