"""Threads of their own for work that changes its thread for good."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def run_in_own_thread(work: Callable[[], T], *, name: str) -> T:
    """Run blocking `work` in a new thread that ends with it.

    Unlike a pool's thread it may change its namespaces or credentials. When the caller is cancelled
    the thread is *not*: whoever cancels must make `work` end, and can wait for it with the same task.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # only None when T is None

    def body() -> None:
        try:
            result, error = work(), None
        except BaseException as raised:
            result, error = None, raised
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            pass  # the loop is closed: nobody waits for the result any more

    threading.Thread(target=body, name=name, daemon=True).start()
    return await future
