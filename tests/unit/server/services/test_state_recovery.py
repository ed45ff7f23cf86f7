"""A server that is killed at any step of an operation: after the next start nothing is in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from opencomputer.server.contracts.stores import MachineState
from opencomputer.server.domain.sandbox import Sandbox, SandboxState, StopReason
from opencomputer.server.domain.snapshot import SavedMemory, SnapshotPurpose, SnapshotState
from opencomputer.server.services.sandboxes.forks import ForkRequest
from opencomputer.server.services.sandboxes.live import Ending
from tests.support import rows
from tests.unit.server.services.harness import ORG, Node, left
from tests.unit.server.services.steps import (
    CHECKPOINT,
    FORK,
    HIBERNATE,
    OPERATIONS,
    REBOOT,
    RESTORE,
    WAKE,
    Operation,
    Steps,
    check_count,
    check_rest,
    check_use,
    checkpointed,
    crashed,
    stage_of,
)

pytestmark = pytest.mark.anyio


async def crashes(operation: Operation, folder: Path) -> list[tuple[str, Node, Sandbox]]:
    """What a kill of the server ahead of each step, and after the last, would have left."""
    left_behind: list[tuple[str, Node, Sandbox]] = []
    async with stage_of(operation, folder / "original") as stage:

        async def kill_server(step: str) -> None:
            number = len(left_behind)
            node = crashed(stage.node, folder / str(number))
            left_behind.append((f"{number} {step}", node, stage.sandbox))

        steps = Steps(kill_server).watch(stage)
        await operation.work(stage)
        await asyncio.sleep(1)
        steps.over = True
        await kill_server("the end")
    return left_behind


def lose_host(node: Node) -> None:
    """The host was restarted, too: no machine is there any more."""
    node.host.machines.clear()


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
async def test_a_crash_at_any_step_leaves_each_object_what_it_was_or_what_it_was_to_be(
    operation: Operation, tmp_path: Path
) -> None:
    for step, node, sandbox in await crashes(operation, tmp_path):
        print(step, node.sandbox(sandbox).state)
        async with node.process(recover=True) as process:
            assert node.sandbox(sandbox).state in (SandboxState.RUNNING, SandboxState.HIBERNATED)
            check_rest(node, process)
            check_count(node)
            await check_use(node, process)


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
async def test_a_power_cut_at_any_step_loses_at_most_what_was_running(
    operation: Operation, tmp_path: Path
) -> None:
    for step, node, sandbox in await crashes(operation, tmp_path):
        before = node.sandbox(sandbox).state
        print(step, before)
        lose_host(node)
        async with node.process(recover=True) as process:
            after = node.sandbox(sandbox)
            if before in (SandboxState.HIBERNATED, SandboxState.WAKING):
                assert after.state is SandboxState.HIBERNATED
            assert after.state is SandboxState.HIBERNATED or after.stop_reason is StopReason.CRASH
            check_rest(node, process)
            check_count(node)
            await check_use(node, process)


# What the rows of each state become


def started(node: Node, state: SandboxState) -> Sandbox:
    """A sandbox in a state between two others, with its machine."""
    _, sandbox = left(node, MachineState.CLAIMED, state)
    assert sandbox is not None
    return sandbox


@pytest.mark.parametrize("state", [SandboxState.HIBERNATING, SandboxState.RESTORING, SandboxState.REBOOTING])
async def test_a_sandbox_goes_on_with_the_machine_in_its_row(node: Node, state: SandboxState) -> None:
    sandbox = started(node, state)
    machine = next(iter(node.host.machines.values()))
    machine.paused = True
    async with node.process(recover=True) as process:
        assert node.sandbox(sandbox).state is SandboxState.RUNNING
        assert (await process.reach.live(ORG, sandbox.id)).machine is machine
        assert not machine.paused


async def test_a_machine_that_was_paused_for_a_checkpoint_goes_on(node: Node) -> None:
    started(node, SandboxState.RUNNING)
    machine = next(iter(node.host.machines.values()))
    machine.paused = True
    async with node.process(recover=True):
        assert not machine.paused


async def test_one_that_was_waking_sleeps_on(node: Node) -> None:
    sandbox = started(node, SandboxState.WAKING)
    async with node.process(recover=True):
        assert node.sandbox(sandbox).state is SandboxState.HIBERNATED
        assert node.host.machines == {}


async def states_at(
    operation: Operation, folder: Path, matches: Callable[[Node, Sandbox], bool]
) -> tuple[Node, Sandbox]:
    """The first crash of which the rows are as asked."""
    for _, node, sandbox in await crashes(operation, folder):
        if matches(node, sandbox):
            return node, sandbox
    raise AssertionError("no step leaves such rows")


def all_saved(node: Node, sandbox: Sandbox) -> bool:
    ready = [each for each in node.tables.snapshots.values() if each.state is SnapshotState.READY]
    return bool(ready) and node.sandbox(sandbox).state is SandboxState.HIBERNATING


async def test_a_sandbox_of_which_all_was_saved_sleeps_when_its_machine_is_gone(tmp_path: Path) -> None:
    node, sandbox = await states_at(HIBERNATE, tmp_path, all_saved)
    lose_host(node)
    async with node.process(recover=True) as process:
        assert node.sandbox(sandbox).state is SandboxState.HIBERNATED
        woken = await process.hibernation.wake(ORG, sandbox.id)
        assert (woken.state, woken.recovered) == (SandboxState.RUNNING, None)


async def test_a_sandbox_of_which_all_was_saved_runs_on_when_its_machine_is_there(tmp_path: Path) -> None:
    node, sandbox = await states_at(HIBERNATE, tmp_path, all_saved)
    async with node.process(recover=True):
        assert node.sandbox(sandbox).state is SandboxState.RUNNING
        assert node.tables.snapshots == {}


async def test_a_checkpoint_that_was_processing_has_failed(tmp_path: Path) -> None:
    def processing(node: Node, _sandbox: Sandbox) -> bool:
        return [each.state for each in node.tables.snapshots.values()] == [SnapshotState.PROCESSING]

    node, sandbox = await states_at(CHECKPOINT, tmp_path, processing)
    async with node.process(recover=True) as process:
        (checkpoint,) = await process.checkpoints.list(ORG, sandbox.id)
        assert checkpoint.state is SnapshotState.FAILED
        assert checkpoint.error == "the server was restarted meanwhile"
        assert process.artefacts.drafts == []


async def test_a_checkpoint_that_was_ready_survives_a_power_cut(tmp_path: Path) -> None:
    *_, (_, node, sandbox) = await crashes(CHECKPOINT, tmp_path)
    lose_host(node)
    async with node.process(recover=True) as process:
        (checkpoint,) = await process.checkpoints.list(ORG, sandbox.id)
        assert checkpoint.state is SnapshotState.READY
        assert node.sandbox(sandbox).state is SandboxState.STOPPED


@pytest.mark.parametrize("operation", [RESTORE, REBOOT], ids=str)
async def test_a_successor_that_was_claimed_has_the_layers_of_its_own(
    operation: Operation, tmp_path: Path
) -> None:
    """At each step the machine in the row stands on the layers in the row: what comes later starts from
    them."""
    successors = 0
    for _, node, sandbox in await crashes(operation, tmp_path):
        row = node.sandbox(sandbox)
        machine = next(each for each in node.host.machines.values() if each.id == row.machine_id)
        assert [path.name for path in machine.spec.layers] == ["base", *row.layers]
        successors += row.state in (SandboxState.RESTORING, SandboxState.REBOOTING) and row.layers != ()
    assert successors


async def test_what_is_made_while_a_sandbox_sleeps_is_not_taken_for_superfluous(tmp_path: Path) -> None:
    async with stage_of(WAKE, tmp_path / "original") as stage:
        node = crashed(stage.node, tmp_path / "crashed")
        sandbox = stage.sandbox
    async with node.process(recover=True) as process:
        (kept,) = node.tables.snapshots.values()
        assert kept.id == node.sandbox(sandbox).hibernation
        assert await process.reconciler.look()


async def test_a_sandbox_that_sleeps_survives_any_number_of_restarts(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        await process.hibernation.hibernate(ORG, sandbox.id)
    for _ in range(3):
        async with node.process(recover=True):
            assert node.sandbox(sandbox).state is SandboxState.HIBERNATED
    async with node.process(recover=True) as process:
        assert (await process.reach.live(ORG, sandbox.id)).id == sandbox.id


async def test_hibernations_that_nobody_sleeps_as_are_removed(node: Node) -> None:
    sandbox = started(node, SandboxState.RUNNING)
    stopped = rows.sandbox(ORG, state=SandboxState.STOPPED)
    node.tables.sandboxes[stopped.id] = stopped
    for owner in (sandbox, stopped):
        left_over = rows.checkpoint(
            ORG, owner.id, purpose=SnapshotPurpose.HIBERNATION, state=SnapshotState.READY
        )
        node.tables.snapshots[left_over.id] = left_over
    async with node.process(recover=True):
        assert node.tables.snapshots == {}


# A server that stops in order


@pytest.mark.parametrize("operation", [CHECKPOINT, FORK, RESTORE, HIBERNATE, WAKE, REBOOT], ids=str)
async def test_what_is_under_way_when_the_server_stops_comes_to_its_end(
    operation: Operation, tmp_path: Path
) -> None:
    """The machines are handed on only after that."""
    async with stage_of(operation, tmp_path) as stage:
        well_begun = asyncio.Event()

        async def note(_step: str) -> None:
            well_begun.set()

        Steps(note, at=8).watch(stage)
        caller = asyncio.ensure_future(operation.work(stage))
        await well_begun.wait()
        caller.cancel()
    node = stage.node
    assert node.sandbox(stage.sandbox).state is operation.state
    assert all(machine.detached for machine in node.host.machines.values())
    async with node.process(recover=True) as process:
        check_rest(node, process)


async def test_who_streams_is_told_that_the_server_restarts(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()
    assert live.ending is Ending.HANDED_ON


async def test_a_checkpoint_of_another_version_forks_cold_after_an_update(tmp_path: Path) -> None:
    async with stage_of(CHECKPOINT, tmp_path) as stage:
        checkpoint = await checkpointed(stage)
        assert isinstance(checkpoint.memory, SavedMemory)
    stage.node.host.image_version = "memory-2"
    async with stage.node.process(recover=True) as process:
        fork = await process.forks.from_checkpoint(ORG, checkpoint.id, ForkRequest())
        assert not fork.memory_restored
