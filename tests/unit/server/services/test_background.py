"""Work that outlives the request which started it has an owner that ends it."""

from __future__ import annotations

import asyncio

import pytest

from opencomputer.server.services.background import Background

pytestmark = pytest.mark.anyio


async def test_leaving_ends_what_runs() -> None:
    ended: list[str] = []

    async def run() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("run")

    async with Background() as background:
        background.start(run(), name="run")
        await asyncio.sleep(0)
    assert ended == ["run"]


async def test_leaving_waits_for_what_is_to_be_finished() -> None:
    done: list[str] = []

    async def finish() -> None:
        await asyncio.sleep(20)
        done.append("finished")

    async with Background() as background:
        background.start(finish(), name="finish", finish=True)
    assert done == ["finished"]


async def test_leaving_does_not_wait_for_ever() -> None:
    began = asyncio.get_running_loop().time()
    async with Background() as background:
        background.start(asyncio.Event().wait(), name="stuck", finish=True)
    assert asyncio.get_running_loop().time() == began + 30


async def test_one_that_fails_leaves_the_others_alone() -> None:
    async def fail() -> None:
        raise ValueError

    done: list[int] = []

    async def work() -> None:
        await asyncio.sleep(1)
        done.append(1)

    async with Background() as background:
        background.start(fail(), name="fail")
        background.start(fail(), name="fail at the end", finish=True)
        background.start(work(), name="work", finish=True)
    assert done == [1]


async def test_an_error_inside_ends_the_work_too_and_passes_through() -> None:
    async def fail() -> None:
        async with Background() as background:
            task.append(background.start(asyncio.Event().wait(), name="work"))
            raise KeyError

    task: list[asyncio.Task[object]] = []
    with pytest.raises(KeyError):
        await fail()
    assert task[0].cancelled()
