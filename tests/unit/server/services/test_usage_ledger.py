"""What counts of sandboxes, through their lives and those of the server; and what is seen of their memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from opencomputer.server.domain.errors import MachineLost, OpenComputerError
from opencomputer.server.domain.metering import Interval, MemorySample, Meter, second_of
from opencomputer.server.domain.sandbox import Sandbox, SandboxShape, StopReason
from opencomputer.server.domain.usage import Amounts, Window, used
from opencomputer.server.services.sandboxes.forks import ForkRequest
from opencomputer.server.services.sandboxes.live import LiveSandboxes
from opencomputer.server.services.sandboxes.scaling import Size
from opencomputer.server.services.sandboxes.usage_sampler import UsageSampler
from opencomputer.wire.ids import SandboxId
from tests.support.hand_clock import HandClock
from tests.support.memory.usage import MemoryUsage
from tests.unit.server.services.harness import ORG, Node, Process, on
from tests.unit.server.services.steps import check_count

pytestmark = pytest.mark.anyio

LARGE_DISK = SandboxShape(4096, 1, 20480 + 512)


@asynccontextmanager
async def sampling(node: Node, *, recover: bool = False) -> AsyncGenerator[Process]:
    async with node.process(recover=recover) as process:
        sampler = UsageSampler(process.ledger, process.live, process.clock, timedelta(days=90))
        keeping = asyncio.create_task(sampler.keep())
        try:
            yield process
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


def amounts(node: Node, process: Process, sandbox: Sandbox) -> Amounts:
    now = second_of(process.clock.now())
    return used(node.tables.intervals, Window(0, now), now).get(sandbox.id, Amounts())


async def test_memory_counts_while_it_runs_and_the_disk_also_while_it_sleeps(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create(shape=LARGE_DISK)
        await asyncio.sleep(100)
        await process.hibernation.hibernate(ORG, sandbox.id)
        await asyncio.sleep(1000)
        assert amounts(node, process, sandbox) == Amounts(100 * 4096, 1100 * 512)
        await process.hibernation.wake(ORG, sandbox.id)
        await asyncio.sleep(10)
        await process.lifecycle.kill(ORG, sandbox.id)
        await asyncio.sleep(1000)
        assert amounts(node, process, sandbox) == Amounts(110 * 4096, 1110 * 512)
        check_count(node)


async def test_each_size_counts_as_long_as_it_was_the_size(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        await asyncio.sleep(10)
        await process.scaling.scale(ORG, sandbox.id, Size(16384))
        await asyncio.sleep(20)
        assert amounts(node, process, sandbox).memory == 10 * 4096 + 20 * 16384
        await process.hibernation.hibernate(ORG, sandbox.id)
        await process.hibernation.wake(ORG, sandbox.id)
        await asyncio.sleep(1)
        assert amounts(node, process, sandbox).memory == 10 * 4096 + 21 * 16384


async def test_a_create_or_a_change_of_size_that_fails_counts_for_nothing(node: Node) -> None:
    async with node.process() as process:
        node.host.before = on("start", MachineLost())
        with pytest.raises(OpenComputerError):
            await process.create()
        assert node.tables.intervals == []
        node.host.before = on("resize", MachineLost())
        sandbox = await process.create()
        with pytest.raises(OpenComputerError):
            await process.scaling.scale(ORG, sandbox.id, Size(16384))
        await asyncio.sleep(5)
        assert amounts(node, process, sandbox) == Amounts(5 * 4096)


async def test_a_fork_counts_from_when_it_is_ready(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        checkpoint = await process.checkpoint(sandbox)
        await asyncio.sleep(100)
        fork = await process.forks.from_checkpoint(ORG, checkpoint.id, ForkRequest())
        await asyncio.sleep(10)
        assert amounts(node, process, fork.sandbox).memory == 10 * 4096


async def test_a_machine_that_ends_by_itself_counts_until_then(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        await asyncio.sleep(100)
        node.machine_of(sandbox).die()
        await asyncio.sleep(100)
        assert node.sandbox(sandbox).stop_reason is StopReason.CRASH
        assert amounts(node, process, sandbox).memory == 100 * 4096


async def test_what_runs_on_while_no_server_is_there_counts_on(node: Node) -> None:
    async with sampling(node) as process:
        sandbox = await process.create()
        await asyncio.sleep(100)
    await asyncio.sleep(1000)
    async with sampling(node, recover=True) as process:
        assert amounts(node, process, sandbox).memory == 1100 * 4096
        check_count(node)


async def test_what_was_lost_counts_until_it_was_last_known_to_run(node: Node) -> None:
    async with sampling(node) as process:
        old = await process.create(shape=LARGE_DISK)
        await asyncio.sleep(130)
        new = await process.create()
        await asyncio.sleep(30)
        noted = node.tables.noted
    node.host.machines.clear()
    # The server was killed: the end that it had just now was not to be.
    node.tables.noted = noted
    await asyncio.sleep(1000)
    async with sampling(node, recover=True) as process:
        # The node was there after two minutes for the last time; the new one is known to have begun later.
        assert amounts(node, process, old) == Amounts(120 * 4096, 120 * 512)
        assert amounts(node, process, new) == Amounts()
        stopped = node.sandbox(old).stopped_at
        assert stopped is not None
        assert stopped - old.created_at == timedelta(seconds=120)
        assert node.sandbox(new).stopped_at == node.sandbox(new).started_at
        check_count(node)


async def test_a_server_that_starts_or_ends_says_that_it_is_there(node: Node) -> None:
    async with sampling(node) as process:
        sandbox = await process.create()
        await asyncio.sleep(90)
    await asyncio.sleep(1000)
    async with sampling(node, recover=True):
        await asyncio.sleep(1)
        started = node.tables.noted
    node.tables.noted = started
    node.host.machines.clear()
    await asyncio.sleep(1000)
    async with sampling(node, recover=True) as process:
        assert amounts(node, process, sandbox).memory == 1090 * 4096


async def test_memory_is_written_down_once_a_minute_where_it_has_changed(node: Node) -> None:
    async with sampling(node) as process:
        sandbox = await process.create()
        machine = node.machine_of(sandbox)
        begin = second_of(process.clock.now())
        await asyncio.sleep(30)
        for megabytes in (100, 100, 200, 200):
            machine.memory_bytes = megabytes << 20
            await asyncio.sleep(60)
        machine.memory_bytes += 1000
        await asyncio.sleep(3600)
        taken = [(each.second - begin, each.kib >> 10) for each in node.tables.samples]
        # Every 55 minutes also where it has not.
        assert taken == [(60, 100), (180, 200), (180 + 55 * 60, 200)]
        assert node.tables.noted == begin + 3840
    assert node.tables.noted == begin + 3870


async def test_a_machine_that_does_not_answer_costs_the_others_nothing(node: Node) -> None:
    async with sampling(node) as process:
        broken, sound = await process.create(), await process.create()

        async def refuse(step: str, *about: object) -> None:
            if step == "usage" and node.machine_of(broken).id in about:
                raise MachineLost

        node.host.before = refuse
        await asyncio.sleep(61)
        assert [each.sandbox_id for each in node.tables.samples] == [sound.id]


async def test_a_batch_that_could_not_be_written_is_not_taken_for_written(node: Node) -> None:
    async with sampling(node) as process:
        await process.create()
        node.tables.before = on("usage.note", OSError("no room"), times=1)
        await asyncio.sleep(61)
        assert node.tables.samples == []
        await asyncio.sleep(60)
        assert len(node.tables.samples) == 1


async def test_usage_is_removed_when_it_is_old_and_minutes_earlier(tmp_path: Path) -> None:
    clock, node = HandClock(), Node(tmp_path)
    sampler = UsageSampler(MemoryUsage(node.tables), LiveSandboxes(), clock, timedelta(days=90))
    begin = second_of(clock.now())
    ended, lasting = SandboxId("sb-00000001"), SandboxId("sb-00000002")
    node.tables.intervals += [
        Interval(ended, Meter.MEMORY, 4096, begin, begin + 10),
        Interval(lasting, Meter.MEMORY, 4096, begin),
    ]
    node.tables.samples.append(MemorySample(lasting, begin, 7))
    kept: list[tuple[int, int]] = []
    for days in (30, 1, 59, 1):
        clock.advance(days * 86400)
        await sampler.prune()
        kept.append((len(node.tables.intervals), len(node.tables.samples)))
    assert kept == [(2, 1), (2, 0), (2, 0), (1, 0)]
    assert node.tables.intervals[0].end is None
