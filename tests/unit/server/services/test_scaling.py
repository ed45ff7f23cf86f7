"""Sizes: one path with one set of rules, and a row and a machine that agree whatever comes in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from opencomputer.server.contracts.stores import MachineState
from opencomputer.server.domain.elasticity import Bounds
from opencomputer.server.domain.errors import (
    Gone,
    GuestFault,
    InvalidInput,
    MachineLost,
    NoCapacity,
    NotFound,
    OomFloor,
    OperationInProgress,
    PlanLimit,
    ScalingLocked,
)
from opencomputer.server.domain.sandbox import Elasticity, Sandbox, SandboxState
from opencomputer.server.services.sandboxes.forks import ForkRequest
from opencomputer.server.services.sandboxes.scaling import AutoscaleRequest, Scaled, Size
from tests.unit.server.services.harness import ORG, OTHER_ORG, Node, Process, left, on, settle
from tests.unit.server.services.steps import check_rest

pytestmark = pytest.mark.anyio

GIB = 1 << 30
RANGE = AutoscaleRequest(enabled=True, min_memory_mb=1024, max_memory_mb=8192)


async def scale(process: Process, sandbox: Sandbox, memory_mb: int) -> Scaled:
    return await process.scaling.scale(ORG, sandbox.id, Size(memory_mb))


def size_of(node: Node, sandbox: Sandbox) -> tuple[int, int, int, int]:
    """What the row says and what the machine has."""
    shape, limits = node.sandbox(sandbox).shape, node.machine_of(sandbox).limits
    return shape.memory_mb, shape.cpu_count, limits.memory_bytes >> 20, limits.cpu_percent


@pytest.mark.parametrize(("memory", "cpus"), [(1024, 1), (4096, 1), (8192, 2), (16384, 4)])
async def test_a_running_sandbox_gets_another_size(node: Node, memory: int, cpus: int) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        made = await scale(process, sandbox, memory)
        assert (made.sandbox.shape.memory_mb, made.sandbox.shape.cpu_count) == (memory, cpus)
        assert not made.autoscale_disabled
        assert size_of(node, sandbox) == (memory, cpus, memory, 100 * cpus)
        live = await process.reach.live(ORG, sandbox.id)
        assert live.sandbox.shape.memory_mb == memory
        check_rest(node, process)


async def test_scaling_counts_as_use_unless_the_machine_asks(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()
        await asyncio.sleep(50)
        await process.scaling.scale_live(live, Size(8192))
        assert (process.clock.now() - live.activity.last()).total_seconds() == 50
        await process.scaling.scale(ORG, live.id, Size(4096))
        assert live.activity.last() == process.clock.now()


# What it keeps


async def test_a_size_survives_sleep_reboot_restore_and_a_restart(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        checkpoint = await process.checkpoint(sandbox)
        await scale(process, sandbox, 8192)
        await process.hibernation.hibernate(ORG, sandbox.id)
        await process.hibernation.wake(ORG, sandbox.id)
        assert size_of(node, sandbox) == (8192, 2, 8192, 200)
        await process.power.reboot(ORG, sandbox.id)
        assert size_of(node, sandbox) == (8192, 2, 8192, 200)
        await process.restores.restore(ORG, sandbox.id, checkpoint.id)
        await settle()
        assert size_of(node, sandbox) == (8192, 2, 8192, 200)
    async with node.process(recover=True) as process:
        live = await process.reach.live(ORG, sandbox.id)
        assert live.sandbox.shape.memory_mb == 8192
        assert size_of(node, sandbox) == (8192, 2, 8192, 200)
        check_rest(node, process)


async def test_copies_get_the_size_and_neither_the_lock_nor_autoscaling(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        await scale(process, sandbox, 8192)
        checkpoint = await process.checkpoint(sandbox)
        await process.scaling.set_autoscale(ORG, sandbox.id, RANGE)
        made = [await process.forks.from_checkpoint(ORG, checkpoint.id, ForkRequest())]
        await process.scaling.set_lock(ORG, sandbox.id, locked=True)
        made += await process.forks.fork(ORG, sandbox.id, 1, ForkRequest())
        for each in made:
            assert each.sandbox.shape.memory_mb == 8192
            assert node.sandbox(each.sandbox).elasticity == Elasticity()


async def test_lock_and_autoscaling_survive_sleep_and_a_restart(node: Node) -> None:
    async with node.process() as process:
        scaling, locked = await process.create(), await process.create()
        await process.scaling.set_autoscale(ORG, scaling.id, RANGE)
        await process.scaling.set_lock(ORG, locked.id, locked=True)
        for each in (scaling, locked):
            await process.hibernation.hibernate(ORG, each.id)
            await process.hibernation.wake(ORG, each.id)
    async with node.process(recover=True) as process:
        found = await process.scaling.autoscale(ORG, scaling.id)
        assert (found.enabled, found.bounds) == (True, Bounds(1024, 8192))
        assert await process.scaling.locked(ORG, locked.id)


# What is refused


async def test_what_is_refused_changes_nothing(node: Node) -> None:
    node.memory_cap_mb = 8192
    async with node.process() as process:
        sandbox = await process.create()
        await process.scaling.set_autoscale(ORG, sandbox.id, RANGE)
        before, machine = node.sandbox(sandbox), node.machine_of(sandbox)
        machine.memory_bytes = 1000 << 20
        roomy = node.host.free
        for size, error in (
            (Size(16384), PlanLimit),
            (Size(2048), InvalidInput),
            (Size(8192, 100), InvalidInput),
            (Size(), InvalidInput),
            (Size(1024), OomFloor),
        ):
            with pytest.raises(error):
                await process.scaling.scale(ORG, sandbox.id, size)
        node.host.free = replace(roomy, available_memory_bytes=GIB)
        with pytest.raises(NoCapacity):
            await scale(process, sandbox, 8192)
        assert node.sandbox(sandbox) == before
        assert before.elasticity.autoscale
        assert size_of(node, sandbox) == (4096, 1, 4096, 100)
        check_rest(node, process)


async def test_a_host_without_room_still_lets_sandboxes_shrink(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.host.free = replace(node.host.free, available_memory_bytes=0)
        await scale(process, sandbox, 1024)
        assert size_of(node, sandbox) == (1024, 1, 1024, 100)


@pytest.mark.parametrize("error", [OSError("gone"), ValueError("odd")])
async def test_nothing_shrinks_whose_use_cannot_be_measured(node: Node, error: Exception) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.host.before = on("usage", error)
        with pytest.raises(OomFloor):
            await scale(process, sandbox, 1024)
        await scale(process, sandbox, 8192)


async def test_what_begins_to_be_used_just_then_is_not_taken_away(node: Node) -> None:
    """The driver looks again."""
    async with node.process() as process:
        sandbox = await process.create()
        machine = node.machine_of(sandbox)

        async def fill() -> None:
            machine.memory_bytes = 2 << 30

        node.host.before = on("resize", fill, times=1)
        with pytest.raises(OomFloor):
            await scale(process, sandbox, 1024)
        assert size_of(node, sandbox) == (4096, 1, 4096, 100)
        check_rest(node, process)


async def test_only_what_runs_is_scaled(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.asleep()
        with pytest.raises(InvalidInput):
            await scale(process, sandbox, 8192)
        assert node.sandbox(sandbox).state is SandboxState.HIBERNATED
        await process.lifecycle.kill(ORG, sandbox.id)
        for call in (
            scale(process, sandbox, 8192),
            process.scaling.set_autoscale(ORG, sandbox.id, RANGE),
            process.scaling.set_lock(ORG, sandbox.id, locked=True),
        ):
            with pytest.raises(Gone):
                await call


async def test_another_organisation_finds_nothing(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        for call in (
            process.scaling.scale(OTHER_ORG, sandbox.id, Size(8192)),
            process.scaling.autoscale(OTHER_ORG, sandbox.id),
            process.scaling.set_autoscale(OTHER_ORG, sandbox.id, RANGE),
            process.scaling.locked(OTHER_ORG, sandbox.id),
            process.scaling.set_lock(OTHER_ORG, sandbox.id, locked=True),
        ):
            with pytest.raises(NotFound):
                await call


async def test_one_change_at_a_time(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.host.before = on("resize", lambda: asyncio.sleep(5))
        first = asyncio.create_task(scale(process, sandbox, 8192))
        await asyncio.sleep(1)
        with pytest.raises(OperationInProgress):
            await scale(process, sandbox, 1024)
        with pytest.raises(OperationInProgress):
            await process.hibernation.hibernate(ORG, sandbox.id)
        # The data plane goes on meanwhile.
        assert (await process.reach.live(ORG, sandbox.id)).machine is node.machine_of(sandbox)
        assert (await first).sandbox.shape.memory_mb == 8192


# The lock and autoscaling


async def test_a_lock_forbids_every_change(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        live = await process.reach.live(ORG, sandbox.id)
        assert not await process.scaling.locked(ORG, sandbox.id)
        assert await process.scaling.set_lock(ORG, sandbox.id, locked=True)
        for call in (
            scale(process, sandbox, 8192),
            scale(process, sandbox, 4096),
            process.scaling.scale_live(live, Size(8192)),
            process.scaling.set_autoscale(ORG, sandbox.id, RANGE),
        ):
            with pytest.raises(ScalingLocked):
                await call
        await process.scaling.set_autoscale(ORG, sandbox.id, AutoscaleRequest(enabled=False))
        await process.scaling.set_lock(ORG, sandbox.id, locked=False)
        await scale(process, sandbox, 8192)


async def test_a_lock_that_comes_just_before_the_change_wins(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()

        async def lock() -> None:
            await process.scaling.set_lock(ORG, sandbox.id, locked=True)

        node.tables.before = on("sandboxes.rescale", lock, times=1)
        with pytest.raises(ScalingLocked):
            await scale(process, sandbox, 8192)
        assert size_of(node, sandbox) == (4096, 1, 4096, 100)
        check_rest(node, process)


async def test_a_scale_by_hand_switches_autoscaling_off_also_when_the_size_stays(node: Node) -> None:
    async with node.process() as process:
        for memory in (4096, 8192):
            sandbox = await process.create()
            await process.scaling.set_autoscale(ORG, sandbox.id, RANGE)
            made = await scale(process, sandbox, memory)
            assert made.autoscale_disabled
            found = await process.scaling.autoscale(ORG, sandbox.id)
            assert (found.enabled, found.bounds) == (False, Bounds(1024, 8192))
            assert not (await scale(process, sandbox, memory)).autoscale_disabled


async def test_bounds_that_are_left_out_stay(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        switch = process.scaling.set_autoscale
        never = await process.scaling.autoscale(ORG, sandbox.id)
        assert (never.enabled, never.bounds) == (False, Bounds(4096, 16384))
        await switch(ORG, sandbox.id, AutoscaleRequest(enabled=False))
        await scale(process, sandbox, 8192)
        assert (await switch(ORG, sandbox.id, AutoscaleRequest(enabled=True))).bounds == Bounds(8192, 16384)
        changed = await switch(ORG, sandbox.id, AutoscaleRequest(enabled=True, min_memory_mb=1024))
        assert changed.bounds == Bounds(1024, 16384)
        assert (await switch(ORG, sandbox.id, AutoscaleRequest(enabled=False))).bounds == Bounds(1024, 16384)
        with pytest.raises(InvalidInput):
            await switch(ORG, sandbox.id, AutoscaleRequest(enabled=False, max_memory_mb=5))


async def test_a_sandbox_that_sleeps_can_be_locked_and_told_to_autoscale(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.asleep()
        await process.scaling.set_autoscale(ORG, sandbox.id, RANGE)
        assert (await process.scaling.autoscale(ORG, sandbox.id)).enabled
        await process.scaling.set_lock(ORG, sandbox.id, locked=True)
        assert not (await process.scaling.autoscale(ORG, sandbox.id)).enabled
        assert node.sandbox(sandbox).state is SandboxState.HIBERNATED


# When it fails half-way


FAILURES: list[BaseException] = [OSError("no such file"), GuestFault(), MachineLost()]


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("step", ["resize", "resized"])
async def test_a_scale_that_fails_leaves_the_size_and_autoscaling(
    node: Node, step: str, error: BaseException
) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        await process.scaling.set_autoscale(ORG, sandbox.id, RANGE)
        before = node.sandbox(sandbox)
        node.host.before = on(step, error, times=1)
        with pytest.raises(type(error)):
            await scale(process, sandbox, 8192)
        assert node.sandbox(sandbox) == before
        assert size_of(node, sandbox) == (4096, 1, 4096, 100)
        check_rest(node, process)


async def test_a_guest_that_does_not_answer_does_not_hold_up_the_way_back(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.host.before = on("resized", GuestFault())
        with pytest.raises(GuestFault):
            await scale(process, sandbox, 8192)
        check_rest(node, process)


async def test_a_caller_that_gives_up_does_not_stop_it(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.host.before = on("resize", lambda: asyncio.sleep(5))
        asking = asyncio.create_task(scale(process, sandbox, 8192))
        await asyncio.sleep(1)
        asking.cancel()
        await settle(10)
        assert size_of(node, sandbox) == (8192, 2, 8192, 200)
        check_rest(node, process)


def interrupted(node: Node, *, machine_mb: int, used_mb: int = 64) -> Sandbox:
    """What a server leaves that was killed while it made a sandbox of 4096 MB one of 8192."""
    _, sandbox = left(node, MachineState.CLAIMED, SandboxState.RUNNING)
    assert sandbox is not None
    elasticity = Elasticity(autoscale=True, min_memory_mb=1024, max_memory_mb=8192, resize_mb=8192)
    node.tables.sandboxes[sandbox.id] = replace(sandbox, elasticity=elasticity)
    machine = next(iter(node.host.machines.values()))
    machine.limits = replace(machine.limits, memory_bytes=machine_mb << 20)
    machine.memory_bytes = used_mb << 20
    return sandbox


@pytest.mark.parametrize("machine_mb", [4096, 8192])
async def test_after_a_crash_a_sandbox_has_the_size_it_had(node: Node, machine_mb: int) -> None:
    sandbox = interrupted(node, machine_mb=machine_mb)
    machine = next(iter(node.host.machines.values()))
    async with node.process(recover=True) as process:
        row = node.sandbox(sandbox)
        assert (row.shape.memory_mb, row.elasticity.resize_mb, row.elasticity.autoscale) == (4096, None, True)
        assert machine.limits.memory_bytes == 4 << 30
        assert (await process.reach.live(ORG, sandbox.id)).sandbox.shape.memory_mb == 4096


async def test_after_a_crash_memory_that_is_used_already_is_not_taken_away(node: Node) -> None:
    sandbox = interrupted(node, machine_mb=8192, used_mb=6000)
    machine = next(iter(node.host.machines.values()))
    async with node.process(recover=True) as process:
        row = node.sandbox(sandbox)
        assert (row.shape.memory_mb, row.shape.cpu_count, row.elasticity.resize_mb) == (8192, 2, None)
        assert machine.limits.memory_bytes == 8 << 30
        assert (await process.reach.live(ORG, sandbox.id)).sandbox.shape.memory_mb == 8192


@pytest.mark.parametrize("step", ["resize", "resized"])
async def test_a_kill_while_it_is_scaled_wins(node: Node, step: str) -> None:
    async with node.process() as process:
        sandbox = await process.create()

        def kill() -> Awaitable[object]:
            return process.lifecycle.kill(ORG, sandbox.id)

        act: Callable[[], Awaitable[object]] = kill
        node.host.before = on(step, act, times=1)
        with pytest.raises(Gone):
            await scale(process, sandbox, 8192)
        await settle()
        assert node.sandbox(sandbox).state is SandboxState.STOPPED
        assert node.sandbox(sandbox).shape.memory_mb == 4096
