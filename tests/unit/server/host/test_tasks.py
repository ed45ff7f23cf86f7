"""Work that is finished whatever happens, and threads of its own."""

from __future__ import annotations

import asyncio
import threading

import pytest

from opencomputer.server.host.tasks import finish
from opencomputer.server.host.threads import run_in_own_thread

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_the_result_of_finished_work_is_returned() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    assert await finish(work()) == 7


async def test_work_is_finished_although_the_caller_is_cancelled_twice() -> None:
    """And the caller hears of the cancellation afterwards."""
    begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await go_on.wait()
        done.set()

    caller = asyncio.ensure_future(finish(work()))
    await begun.wait()
    for _ in range(2):
        caller.cancel()
        await asyncio.sleep(0)
    assert not caller.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert done.is_set()


async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await finish(work())


async def test_work_gets_a_thread_that_nobody_used_before() -> None:
    names = {await run_in_own_thread(lambda: threading.current_thread().name, name=f"t{n}") for n in range(3)}
    assert names == {"t0", "t1", "t2"}


async def test_an_error_in_the_thread_reaches_the_caller() -> None:
    def fail() -> None:
        raise KeyError("inside")

    with pytest.raises(KeyError):
        await run_in_own_thread(fail, name="fails")
