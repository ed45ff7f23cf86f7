from __future__ import annotations

import asyncio

import pytest

from opencomputer.server.services.sandboxes.build_log import MAX_CHARACTERS, MAX_LINES, BuildLog

pytestmark = pytest.mark.anyio


async def read(log: BuildLog) -> list[str]:
    return [line.message async for line in log.follow()]


async def test_each_reader_gets_all_lines_whenever_it_comes() -> None:
    log = BuildLog()
    first = asyncio.create_task(read(log))
    await asyncio.sleep(0)
    log.add(1, "run", "a")
    second = asyncio.create_task(read(log))
    await asyncio.sleep(0)
    log.add(1, "run", "b")
    log.close()
    assert await first == await second == await read(log) == ["a", "b"]


async def test_a_log_does_not_grow_for_ever() -> None:
    log = BuildLog()
    for _ in range(MAX_LINES + 5):
        log.add(1, "run", "x" * 2 * MAX_CHARACTERS)
    log.close()
    lines = await read(log)
    assert len(lines) == MAX_LINES + 1
    assert len(lines[0]) == MAX_CHARACTERS
    assert lines[-1] == "further lines are left out"
