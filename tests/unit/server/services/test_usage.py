"""How much a sandbox uses right now."""

from __future__ import annotations

import asyncio
import gc

import pytest

from opencomputer.server.services.sandboxes.usage import UsageReader
from tests.unit.server.services.harness import Node

pytestmark = pytest.mark.anyio


async def test_the_share_of_the_processor_is_an_average_since_the_last_reading(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()
        machine = node.machine_of(live.sandbox)
        reader = UsageReader(process.clock)
        assert (await reader.read(live)).cpu_percent == 0
        machine.cpu_seconds += 5
        await asyncio.sleep(10)
        assert (await reader.read(live)).cpu_percent == 50
        await asyncio.sleep(10)
        assert (await reader.read(live)).cpu_percent == 0


async def test_readings_of_sandboxes_that_are_gone_are_forgotten(node: Node) -> None:
    async with node.process() as process:
        reader = UsageReader(process.clock)
        live = await process.live_one()
        await reader.read(live)
        assert len(reader._last) == 1  # pyright: ignore[reportPrivateUsage] - memory is the point
        await process.lifecycle.kill(live.sandbox.org_id, live.id)
        await asyncio.sleep(1)
        del live

        gc.collect()
        assert len(reader._last) == 0  # pyright: ignore[reportPrivateUsage] - memory is the point
