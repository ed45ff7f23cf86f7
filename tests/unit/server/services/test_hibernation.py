"""Hibernate: durable before the machine goes, refused in time, and never a reason to lose a sandbox."""

from __future__ import annotations

import asyncio

import pytest

from opencomputer.server.domain.errors import (
    Gone,
    GuestFault,
    HostDiskFull,
    MachineLost,
    NotFound,
    OpenComputerError,
    SnapshotRefused,
)
from opencomputer.server.domain.sandbox import SandboxShape, SandboxState, StopReason
from opencomputer.server.domain.snapshot import SnapshotPurpose, SnapshotState
from opencomputer.server.services.sandboxes.live import Ending
from opencomputer.wire.ids import SandboxId, SnapshotId
from tests.support.memory.machines import MemoryMachine
from tests.unit.server.services.harness import ORG, OTHER_ORG, Node, on, settle
from tests.unit.server.services.steps import check_rest

pytestmark = pytest.mark.anyio


async def test_a_sandbox_that_sleeps_takes_no_machine_and_no_place(node: Node) -> None:
    node.concurrency_limit = 1
    async with node.process() as process:
        sandbox = await process.create()
        asleep = await process.hibernation.hibernate(ORG, sandbox.id)
        await settle()
        assert asleep.sandbox.state is SandboxState.HIBERNATED
        assert node.host.machines == node.tables.machines == {}
        assert await process.create()


async def test_the_answer_tells_what_the_store_holds_of_it(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.machine_of(sandbox).writable["file"] = "x" * 1000
        asleep = await process.hibernation.hibernate(ORG, sandbox.id)
        assert asleep.size_bytes is not None
        assert asleep.size_bytes > 1000
        snapshot = node.tables.snapshots[_hibernation(node, sandbox.id)]
        assert snapshot.size_bytes == asleep.size_bytes


def _hibernation(node: Node, sandbox_id: SandboxId) -> SnapshotId:
    (found,) = (
        each.id
        for each in node.tables.snapshots.values()
        if (each.purpose, each.sandbox_id) == (SnapshotPurpose.HIBERNATION, sandbox_id)
    )
    return found


async def test_the_second_call_changes_nothing(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.asleep()
        again = await process.hibernation.hibernate(ORG, sandbox.id)
        assert again.sandbox == sandbox
        assert again.size_bytes is None
        assert node.sandbox(sandbox) == sandbox


async def test_nothing_is_let_go_before_everything_is_durable(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        seen: list[tuple[SandboxState, SnapshotState]] = []

        async def look() -> None:
            (snapshot,) = node.tables.snapshots.values()
            assert set(snapshot.origin.layers) <= process.artefacts.layer_ids
            assert snapshot.memory is not None
            assert snapshot.memory.id in process.artefacts.memory_ids
            seen.append((node.sandbox(sandbox).state, snapshot.state))

        node.host.before = on("stop", look)
        await process.hibernation.hibernate(ORG, sandbox.id)
        await settle()
        assert seen == [(SandboxState.HIBERNATED, SnapshotState.READY)]


async def test_memory_and_files_are_of_the_same_instant(node: Node) -> None:
    """The machine stands still from its saving on: nothing it would do later is lost."""
    async with node.process() as process:
        sandbox = await process.create()
        machine = node.machine_of(sandbox)
        seen: dict[str, bool] = {}

        async def look(step: str, _about: str) -> None:
            seen[step] = machine.paused

        process.artefacts.before = look
        await process.hibernation.hibernate(ORG, sandbox.id)
        kept = {step: seen[step] for step in ("keep_layer", "keep_memory", "kept")}
        assert kept == {"keep_layer": True, "keep_memory": True, "kept": True}


async def test_sockets_are_told_that_the_sandbox_sleeps(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()
        await process.hibernation.hibernate(ORG, live.id)
        assert live.ended.is_set()
        assert live.ending is Ending.HIBERNATED


FAULTS = [
    SnapshotRefused("the guest does not answer"),
    HostDiskFull("the disk is 96 % full"),
    GuestFault(),
    OSError("I/O error"),
]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "step",
    ["host.save", "host.saved", "artefacts.new_draft", "artefacts.keep_layer", "artefacts.keep_memory"],
)
async def test_a_sandbox_that_cannot_be_put_to_sleep_runs_on(node: Node, step: str, fault: Exception) -> None:
    async with node.process() as process:
        live = await process.live_one()
        where, _, name = step.partition(".")
        if where == "host":
            node.host.before = on(name, fault)
        else:
            process.artefacts.before = on(name, fault)
        with pytest.raises(type(fault)):
            await process.hibernation.hibernate(ORG, live.id)
        assert await process.reach.live(ORG, live.id) is live
        error = fault.message if isinstance(fault, OpenComputerError) else "the server failed; see its log"
        assert node.sandbox(live.sandbox).last_hibernate_error == error
        check_rest(node, process)
        node.host.before = process.artefacts.before = on("nothing", fault)
        await process.hibernation.hibernate(ORG, live.id)
        assert node.sandbox(live.sandbox).last_hibernate_error is None


@pytest.mark.parametrize("step", ["snapshots.add", "snapshots.ready"])
async def test_a_store_that_fails_leaves_it_running_too(node: Node, step: str) -> None:
    async with node.process() as process:
        live = await process.live_one()
        node.tables.before = on(step, OSError("I/O error"), times=1)
        with pytest.raises(OSError, match="I/O error"):
            await process.hibernation.hibernate(ORG, live.id)
        assert isinstance(live.machine, MemoryMachine)
        assert not live.machine.paused
        check_rest(node, process)


@pytest.mark.parametrize("after_seconds", [0.0, 0.5, 1.5, 2.5])
async def test_a_kill_wins_whenever_it_comes(node: Node, after_seconds: float) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.host.before = on("save", lambda: asyncio.sleep(1))
        process.artefacts.before = on("keep_memory", lambda: asyncio.sleep(1))
        sleeping = asyncio.create_task(process.hibernation.hibernate(ORG, sandbox.id))
        await asyncio.sleep(after_seconds)
        await process.lifecycle.kill(ORG, sandbox.id)
        await asyncio.gather(sleeping, return_exceptions=True)
        await settle()
        row = node.sandbox(sandbox)
        assert (row.state, row.stop_reason) == (SandboxState.STOPPED, StopReason.USER_REQUESTED)
        assert node.tables.snapshots == {}
        check_rest(node, process)


async def test_a_kill_of_one_that_sleeps_removes_what_it_slept_as(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.asleep()
        await process.lifecycle.kill(ORG, sandbox.id)
        assert node.tables.snapshots == {}
        process.artefacts.let_time_pass()
        await process.collection.sweep()
        assert process.artefacts.layer_ids == process.artefacts.memory_ids == frozenset()
        with pytest.raises(Gone):
            await process.hibernation.hibernate(ORG, sandbox.id)
        with pytest.raises(Gone):
            await process.hibernation.wake(ORG, sandbox.id)


async def test_a_machine_that_dies_while_it_is_saved_is_a_crash_and_no_sleep(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()

        async def die() -> None:
            node.machine_of(live.sandbox).die()
            raise MachineLost

        node.host.before = on("save", die)
        with pytest.raises(MachineLost):
            await process.hibernation.hibernate(ORG, live.id)
        await settle()
        assert node.sandbox(live.sandbox).stop_reason is StopReason.CRASH
        check_rest(node, process)


async def test_size_and_everything_else_of_the_row_stays(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.asleep(
            shape=SandboxShape(8192, 2, 20480), timeout_seconds=60, alias="mine", metadata={"a": "1"}
        )
        woken = await process.hibernation.wake(ORG, sandbox.id)
        await settle()
        assert (woken.shape, woken.timeout_seconds, woken.alias, woken.metadata) == (
            sandbox.shape,
            60,
            "mine",
            {"a": "1"},
        )
        assert node.machine_of(sandbox).limits.memory_bytes == 8192 << 20


async def test_five_quick_cycles_lose_nothing(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        for number in range(5):
            node.machine_of(sandbox).writable = {f"file-{number}": "text"}
            await process.hibernation.hibernate(ORG, sandbox.id)
            await process.hibernation.wake(ORG, sandbox.id)
        changes = await process.diffs.diff(ORG, sandbox.id, None)
        assert [change.path for change in changes] == [f"/file-{number}" for number in range(5)]
        check_rest(node, process)


async def test_it_has_exactly_one_snapshot_it_sleeps_as(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        for _ in range(3):
            await process.hibernation.hibernate(ORG, sandbox.id)
            await settle()
            assert list(node.tables.snapshots) == [node.sandbox(sandbox).hibernation]
            await process.hibernation.wake(ORG, sandbox.id)
            await settle()
            assert node.tables.snapshots == {}


async def test_another_organisations_sandbox_is_none(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        with pytest.raises(NotFound):
            await process.hibernation.hibernate(OTHER_ORG, sandbox.id)
        with pytest.raises(NotFound):
            await process.hibernation.wake(OTHER_ORG, sandbox.id)
