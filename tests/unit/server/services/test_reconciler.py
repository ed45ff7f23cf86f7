"""After a restart each machine is adopted or recorded as lost; none is forgotten, none served twice."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.contracts.stores import MachineState
from opencomputer.server.domain.errors import Gone, GuestFault, NotReady
from opencomputer.server.domain.sandbox import Sandbox, SandboxState, StopReason
from tests.support import rows
from tests.unit.server.services.harness import (
    BASE,
    ORG,
    Node,
    exists,
    left,
    new_sandbox,
    pool_of,
)

pytestmark = pytest.mark.anyio

SWEEP = 61.0


async def test_a_running_sandbox_is_adopted_and_served(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
    async with node.process(recover=True) as process:
        live = await process.reach.live(ORG, sandbox.id)
        assert live.machine.id == sandbox.machine_id
        assert node.sandbox(sandbox).state is SandboxState.RUNNING
        assert [machine.detached for machine in node.host.machines.values()] == [False]


async def test_a_sandbox_survives_many_restarts(node: Node) -> None:
    async with node.process() as process:
        made = [await process.create() for _ in range(3)]
    for _ in range(4):
        async with node.process(recover=True) as process:
            for sandbox in made:
                await process.reach.live(ORG, sandbox.id)
    assert len(node.host.started) == 3


async def test_an_adopted_sandbox_that_crashes_is_noticed(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
    async with node.process(recover=True):
        node.machine_of(sandbox).die()
        await asyncio.sleep(0.1)
        assert node.sandbox(sandbox).stop_reason is StopReason.CRASH


async def test_a_sandbox_whose_machine_is_gone_is_recorded_as_lost(node: Node) -> None:
    row, sandbox = left(node, MachineState.CLAIMED, SandboxState.RUNNING, on_host=False)
    assert sandbox is not None
    async with node.process(recover=True) as process:
        found = node.sandbox(sandbox)
        assert (found.state, found.stop_reason) == (SandboxState.STOPPED, StopReason.CRASH)
        assert row.id not in node.tables.machines
        with pytest.raises(Gone):
            await process.reach.live(ORG, sandbox.id)


async def test_a_sandbox_without_any_machine_is_recorded_as_lost(node: Node) -> None:
    sandbox = rows.sandbox(ORG, state=SandboxState.RUNNING)
    node.tables.sandboxes[sandbox.id] = sandbox
    async with node.process(recover=True):
        assert node.sandbox(sandbox).stop_reason is StopReason.CRASH


@pytest.mark.parametrize("on_host", [True, False])
@pytest.mark.parametrize(
    ("machine", "sandbox"),
    [
        (MachineState.STARTING, None),
        (MachineState.STARTING, SandboxState.CREATING),
        (MachineState.CLAIMED, SandboxState.CREATING),
        (MachineState.CLAIMED, SandboxState.STOPPED),
        (MachineState.CLAIMED, SandboxState.FAILED),
        (MachineState.CLAIMED, None),
        (MachineState.STOPPING, SandboxState.RUNNING),
        (MachineState.STOPPING, SandboxState.STOPPED),
        (MachineState.STOPPING, None),
    ],
)
async def test_what_was_half_made_or_half_gone_is_removed(
    node: Node, machine: MachineState, sandbox: SandboxState | None, on_host: bool
) -> None:
    """Each gap between two steps of a create and of a kill leaves one of these."""
    _, row = left(node, machine, sandbox, on_host=on_host)
    async with node.process(recover=True) as process:
        assert node.host.machines == {}
        assert node.tables.machines == {}
        assert len(process.live) == 0
        if row is not None:
            assert node.sandbox(row).state in (SandboxState.STOPPED, SandboxState.FAILED)


async def test_a_create_without_a_machine_yet_is_failed(node: Node) -> None:
    sandbox = rows.sandbox(ORG, idempotency_key="k")
    node.tables.sandboxes[sandbox.id] = sandbox
    async with node.process(recover=True) as process:
        assert node.sandbox(sandbox).state is SandboxState.FAILED
        again = await process.create(idempotency_key="k")
        assert again.id != sandbox.id


async def test_a_machine_without_a_row_is_a_stranger_and_removed(node: Node) -> None:
    exists(node, rows.machine())
    async with node.process(recover=True):
        assert node.host.machines == {}


async def test_a_pool_member_goes_back_to_the_pool(node: Node) -> None:
    row, _ = left(node, MachineState.READY, None)
    node.policy = pool_of(1)
    async with node.process(recover=True) as process:
        assert process.pool.sizes() == {"base": 1}
        assert node.host.machines[row.id].rests == 1
        assert (await process.pool.claim(BASE)).id == row.id


@pytest.mark.parametrize(
    "changes", [{"template_hash": "of an older build"}, {"image_version": "of an older guest"}]
)
async def test_a_pool_member_of_another_time_is_removed(node: Node, changes: dict[str, str]) -> None:
    row, _ = left(node, MachineState.READY, None)
    node.tables.machines[row.id] = replace(node.tables.machines[row.id], **changes)  # pyright: ignore[reportArgumentType]
    async with node.process(recover=True):
        assert row.id not in node.host.machines
        assert row.id not in node.tables.machines


async def test_a_running_sandbox_of_an_older_template_is_adopted_all_the_same(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
    node.templates.templates = [replace(BASE, hash="h2")]
    async with node.process(recover=True) as process:
        assert await process.reach.live(ORG, sandbox.id)


async def test_a_pool_member_that_died_is_removed(node: Node) -> None:
    row, _ = left(node, MachineState.READY, None)
    node.host.machines[row.id].die()
    async with node.process(recover=True) as process:
        assert sum(process.pool.sizes().values()) == 0
        assert row.id not in node.tables.machines


FAULTS = [GuestFault("no answer"), OSError("no such device"), ValueError("a bug")]


@pytest.mark.parametrize("fault", FAULTS)
async def test_one_machine_that_cannot_be_adopted_does_not_stop_the_others(
    node: Node, fault: Exception
) -> None:
    async with node.process() as process:
        made = [await process.create() for _ in range(3)]
    bad = made[1]

    async def fail(step: str, machine: MachineId) -> None:
        if step == "adopt" and machine == bad.machine_id:
            raise fault

    node.host.before = fail
    async with node.process(recover=True) as process:
        for sandbox in (made[0], made[2]):
            assert await process.reach.live(ORG, sandbox.id)
        assert node.sandbox(bad).stop_reason is StopReason.CRASH


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_machine_that_could_not_be_adopted_does_not_stay_on_the_host(
    node: Node, fault: Exception
) -> None:
    async with node.process() as process:
        sandbox = await process.create()

    async def fail(step: str, _machine: MachineId) -> None:
        if step == "adopt":
            raise fault

    node.host.before = fail
    async with node.process(recover=True) as process:
        sweep = asyncio.create_task(process.reconciler.keep())
        await asyncio.sleep(SWEEP)
        sweep.cancel()
        assert node.sandbox(sandbox).state is SandboxState.STOPPED
        assert node.host.machines == {}
        assert node.tables.machines == {}


# What begins while an earlier process's machines are still being adopted


async def test_a_create_during_the_recovery_is_left_alone(node: Node) -> None:
    """Requests are taken from the start, so new machines and sandboxes appear while old ones are adopted."""
    async with node.process() as process:
        old = [await process.create() for _ in range(3)]

    async def slow(step: str, _machine: MachineId) -> None:
        if step == "adopt":
            await asyncio.sleep(1)

    node.host.before = slow
    node.host.start_seconds = 0.7
    async with node.process() as process:
        found = await process.reconciler.look()
        recovery = asyncio.create_task(process.reconciler.recover(found))
        made: list[Sandbox] = []
        while not recovery.done():
            made.append(await process.create())
        await recovery
        for sandbox in (*old, *made):
            assert node.sandbox(sandbox).state is SandboxState.RUNNING
            live = await process.reach.live(ORG, sandbox.id)
            assert live.machine is node.machine_of(sandbox)
        assert len(node.host.machines) == len(old) + len(made)


async def test_a_create_that_is_under_way_when_the_recovery_looks_around_is_left_alone(node: Node) -> None:
    node.host.start_seconds = 1.0
    async with node.process() as process:
        found = await process.reconciler.look()
        create = asyncio.create_task(process.create())
        await asyncio.sleep(0.5)
        await process.reconciler.recover(found)
        assert (await create).state is SandboxState.RUNNING


async def test_a_sandbox_killed_during_the_recovery_is_not_served_again(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()

    async def kill_meanwhile(step: str, _machine: MachineId) -> None:
        if step == "adopt":
            await process.lifecycle.kill(ORG, sandbox.id)

    node.host.before = kill_meanwhile
    async with node.process() as process:
        await process.reconciler.recover(await process.reconciler.look())
        assert node.sandbox(sandbox).stop_reason is StopReason.USER_REQUESTED
        with pytest.raises(Gone):
            await process.reach.live(ORG, sandbox.id)
        await asyncio.sleep(0.1)
        assert node.host.machines == {}
        assert node.tables.machines == {}


async def test_a_sandbox_that_is_not_adopted_yet_is_not_ready(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()

    async def slow(step: str, _machine: MachineId) -> None:
        if step == "adopt":
            await asyncio.sleep(1)

    node.host.before = slow
    async with node.process() as process:
        recovery = asyncio.create_task(process.reconciler.recover(await process.reconciler.look()))
        with pytest.raises(NotReady):
            await process.reach.live(ORG, sandbox.id)
        await recovery
        assert await process.reach.live(ORG, sandbox.id)


async def test_many_sandboxes_are_adopted_side_by_side(node: Node) -> None:
    async with node.process() as process:
        for _ in range(40):
            await process.create()

    async def slow(step: str, _machine: MachineId) -> None:
        if step == "adopt":
            await asyncio.sleep(1)

    node.host.before = slow
    async with node.process() as process:
        began = process.clock.monotonic()
        await process.reconciler.recover(await process.reconciler.look())
        assert process.clock.monotonic() - began < 10
        assert len(process.live) == 40


async def test_a_request_may_come_for_every_state_a_restart_finds(node: Node) -> None:
    """The summary of it all: whatever was left, afterwards store, host and service say the same."""
    for machine in MachineState:
        for sandbox in (*SandboxState, None):
            for on_host in (True, False):
                left(node, machine, sandbox, on_host=on_host)
    node.policy = pool_of(3)
    async with node.process(recover=True) as process:
        await asyncio.sleep(5)
        created = (await process.lifecycle.create(ORG, new_sandbox())).sandbox
        await asyncio.sleep(5)
        running = {row.machine_id for row in node.tables.sandboxes.values() if row.state == "running"}
        members = {row.id for row in node.tables.machines.values() if row.state is MachineState.READY}
        assert created.machine_id in running
        assert set(node.host.machines) == set(node.tables.machines) == running | members
        assert {live.machine.id for live in process.live} == running
