"""Autoscaling: it follows what is used, in its own time, and never against anybody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest

from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.services.sandboxes.scaling import AutoscaleRequest, Size
from tests.unit.server.services.harness import ORG, Node, Process, on
from tests.unit.server.services.steps import check_rest

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def scaling(node: Node, *, recover: bool = False) -> AsyncGenerator[Process]:
    async with node.process(recover=recover) as process:
        keeping = asyncio.create_task(process.autoscaling.keep())
        try:
            yield process
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


async def sandbox_of(process: Process, low: int = 1024, high: int = 16384) -> Sandbox:
    sandbox = await process.create()
    await process.scaling.set_autoscale(ORG, sandbox.id, AutoscaleRequest(True, low, high))
    return sandbox


def use(node: Node, sandbox: Sandbox, megabytes: int) -> None:
    node.machine_of(sandbox).memory_bytes = megabytes << 20


def size(node: Node, sandbox: Sandbox) -> int:
    return node.sandbox(sandbox).shape.memory_mb


async def test_it_grows_step_by_step_and_not_beyond_its_bounds(node: Node) -> None:
    async with scaling(node) as process:
        sandbox = await sandbox_of(process, high=8192)
        use(node, sandbox, 3500)
        await asyncio.sleep(31)
        assert size(node, sandbox) == 4096
        await asyncio.sleep(30)
        assert size(node, sandbox) == 8192
        use(node, sandbox, 8000)
        await asyncio.sleep(600)
        assert size(node, sandbox) == 8192
        assert node.sandbox(sandbox).elasticity.autoscale
        check_rest(node, process)


async def test_between_two_steps_up_is_a_minute(node: Node) -> None:
    async with scaling(node) as process:
        sandbox = await process.create()
        await process.scaling.scale(ORG, sandbox.id, Size(1024))
        await process.scaling.set_autoscale(ORG, sandbox.id, AutoscaleRequest(True, 1024, 16384))
        sizes: list[int] = []
        for _ in range(7):
            use(node, sandbox, size(node, sandbox) * 98 // 100)
            await asyncio.sleep(30.5)
            sizes.append(size(node, sandbox))
        assert sizes == [1024, 4096, 4096, 8192, 8192, 16384, 16384]


async def test_it_shrinks_after_a_quiet_quarter_of_an_hour(node: Node) -> None:
    async with scaling(node) as process:
        sandbox = await process.create()
        await process.scaling.scale(ORG, sandbox.id, Size(16384))
        await process.scaling.set_autoscale(ORG, sandbox.id, AutoscaleRequest(True, 1024, 16384))
        use(node, sandbox, 200)
        await asyncio.sleep(14 * 60)
        assert size(node, sandbox) == 16384
        await asyncio.sleep(62)
        assert size(node, sandbox) == 8192
        await asyncio.sleep(4 * 60)
        assert size(node, sandbox) == 8192
        await asyncio.sleep(62)
        assert size(node, sandbox) == 4096
        await asyncio.sleep(400)
        assert size(node, sandbox) == 1024
        await asyncio.sleep(400)
        assert size(node, sandbox) == 1024
        check_rest(node, process)


async def test_a_step_that_fails_costs_its_pause_and_nothing_else(node: Node) -> None:
    async with scaling(node) as process:
        sandbox = await sandbox_of(process)
        use(node, sandbox, 4000)
        tries: list[float] = []

        async def fail() -> None:
            tries.append(process.clock.monotonic())
            raise OSError("the host does not want to")

        node.host.before = on("resize", fail, times=1)
        await asyncio.sleep(95)
        assert (size(node, sandbox), len(tries)) == (4096, 1)
        assert node.sandbox(sandbox).elasticity.autoscale
        await asyncio.sleep(30)
        assert size(node, sandbox) == 8192
        check_rest(node, process)


async def test_nothing_happens_to_what_is_locked_switched_off_or_asleep(node: Node) -> None:
    async with scaling(node) as process:
        locked, off, by_hand, asleep = [await sandbox_of(process) for _ in range(4)]
        for each in (locked, off, by_hand, asleep):
            use(node, each, 4000)
        await process.scaling.set_lock(ORG, locked.id, locked=True)
        await process.scaling.set_autoscale(ORG, off.id, AutoscaleRequest(False))
        await process.scaling.scale(ORG, by_hand.id, Size(4096))
        await process.hibernation.hibernate(ORG, asleep.id)
        await asyncio.sleep(300)
        assert [size(node, each) for each in (locked, off, by_hand, asleep)] == [4096] * 4
        assert node.sandbox(asleep).state is SandboxState.HIBERNATED


async def test_it_waits_for_whatever_else_is_under_way(node: Node) -> None:
    async with scaling(node) as process:
        sandbox = await sandbox_of(process)
        use(node, sandbox, 4000)
        with process.transitions.exclusive(sandbox.id, "something", closes=False):
            await asyncio.sleep(200)
            assert size(node, sandbox) == 4096
            assert node.sandbox(sandbox).elasticity.up_after is None
        await asyncio.sleep(31)
        assert size(node, sandbox) == 8192


async def test_after_a_wake_it_begins_to_look_anew(node: Node) -> None:
    async with scaling(node) as process:
        sandbox = await sandbox_of(process)
        use(node, sandbox, 4000)
        await asyncio.sleep(31)
        await process.hibernation.hibernate(ORG, sandbox.id)
        await process.hibernation.wake(ORG, sandbox.id)
        use(node, sandbox, 4000)
        await asyncio.sleep(30)
        assert size(node, sandbox) == 4096
        await asyncio.sleep(30)
        assert size(node, sandbox) == 8192


async def test_a_pause_survives_a_restart(node: Node) -> None:
    async with scaling(node) as process:
        sandbox = await sandbox_of(process)
        use(node, sandbox, 4000)
        await asyncio.sleep(61)
        assert size(node, sandbox) == 8192
        use(node, sandbox, 8000)
        until = node.sandbox(sandbox).elasticity.up_after
    async with scaling(node, recover=True) as process:
        assert node.sandbox(sandbox).elasticity.up_after == until
        assert until is not None
        assert until > process.clock.now()
        await asyncio.sleep(120)
        assert size(node, sandbox) == 16384


async def test_what_does_not_fit_is_left_as_it_is(node: Node) -> None:
    """Neither a plan nor a use that has risen since is passed over."""
    node.memory_cap_mb = 8192
    async with scaling(node) as process:
        sandbox = await sandbox_of(process, high=8192)
        use(node, sandbox, 8000)
        await asyncio.sleep(400)
        assert size(node, sandbox) == 8192
        use(node, sandbox, 100)

        async def fill() -> None:
            use(node, sandbox, 7000)

        node.host.before = on("resize", fill, times=1)
        await asyncio.sleep(1000)
        assert size(node, sandbox) == 8192
        check_rest(node, process)


async def test_of_two_that_claim_a_step_one_takes_it(node: Node) -> None:
    """As two servers of one database would be."""
    async with node.process() as first, node.process() as second:
        sandbox = await sandbox_of(first)
        live = await first.reach.live(ORG, sandbox.id)
        second.live.add(live)
        use(node, sandbox, 4000)
        for process in (first, second):
            await process.autoscaling.look()
        await asyncio.sleep(30)
        resized: list[str] = []

        async def count() -> None:
            resized.append("once more")

        node.host.before = on("resize", count)
        with suppress(OpenComputerError):
            await asyncio.gather(first.autoscaling.look(), second.autoscaling.look())
        await asyncio.sleep(1)
        assert resized == ["once more"]
        assert size(node, sandbox) == 8192
        second.live.remove(sandbox.id)


async def test_a_machine_that_cannot_be_measured_is_left_alone(node: Node) -> None:
    async with scaling(node) as process:
        well, ill = await sandbox_of(process), await sandbox_of(process)
        for each in (well, ill):
            use(node, each, 4000)
        machine = node.machine_of(ill)

        async def before(step: str, machine_id: object) -> None:
            if step == "usage" and machine_id == machine.id:
                raise OSError("gone")

        node.host.before = before
        await asyncio.sleep(100)
        assert (size(node, well), size(node, ill)) == (8192, 4096)
