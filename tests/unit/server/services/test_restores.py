"""Restore in place: exactly what the checkpoint was, as often as asked, or what it was before."""

from __future__ import annotations

import asyncio

import pytest

from opencomputer.server.domain.errors import (
    ArtefactDamaged,
    ArtefactMissing,
    Gone,
    GuestFault,
    InvalidInput,
    NotFound,
    OpenComputerError,
    StartFailed,
)
from opencomputer.server.domain.sandbox import Sandbox, SandboxShape, SandboxState
from opencomputer.server.domain.snapshot import Snapshot, SnapshotKind
from opencomputer.server.services.sandboxes.forks import ForkRequest
from opencomputer.server.services.sandboxes.live import Ending
from opencomputer.wire.ids import SnapshotId
from tests.unit.server.services.harness import ORG, OTHER_ORG, Node, Process, on, settle
from tests.unit.server.services.steps import check_rest

pytestmark = pytest.mark.anyio


async def checkpointed(
    process: Process, kind: SnapshotKind = SnapshotKind.FULL, **changes: object
) -> tuple[Sandbox, Snapshot]:
    sandbox = await process.create(**changes)
    return sandbox, await process.checkpoint(sandbox, kind)


@pytest.mark.parametrize("kind", SnapshotKind)
async def test_a_sandbox_goes_back_to_the_files_and_memory_of_its_checkpoint(
    node: Node, kind: SnapshotKind
) -> None:
    async with node.process() as process:
        sandbox, checkpoint = await checkpointed(process, kind)
        old = node.machine_of(sandbox)
        old.writable["later"] = "text"
        await process.restores.restore(ORG, sandbox.id, checkpoint.id)
        await settle()
        machine = node.machine_of(sandbox)
        assert machine is not old
        assert machine.writable == {}
        assert (machine.spec.memory_image is not None) == (kind is SnapshotKind.FULL)
        assert node.sandbox(sandbox).layers == checkpoint.origin.layers
        check_rest(node, process)


async def test_it_can_be_repeated_any_number_of_times(node: Node) -> None:
    async with node.process() as process:
        sandbox, checkpoint = await checkpointed(process)
        generations: list[int] = []
        for _ in range(5):
            await process.restores.restore(ORG, sandbox.id, checkpoint.id)
            generations.append(node.sandbox(sandbox).generation)
        await settle()
        assert node.sandbox(sandbox).layers == checkpoint.origin.layers
        assert generations == [1, 2, 3, 4, 5]
        check_rest(node, process)


async def test_what_is_not_in_memory_or_files_stays(node: Node) -> None:
    async with node.process() as process:
        sandbox, checkpoint = await checkpointed(process, timeout_seconds=60, alias="mine")
        await process.lifecycle.set_timeout(ORG, sandbox.id, 600)
        await settle(10)
        await process.restores.restore(ORG, sandbox.id, checkpoint.id)
        row = node.sandbox(sandbox)
        assert (row.id, row.alias, row.timeout_seconds) == (sandbox.id, "mine", 600)
        assert row.due_at is not None
        assert (row.due_at - process.clock.now()).total_seconds() == pytest.approx(600)


async def test_a_timeout_set_while_it_is_under_way_counts(node: Node) -> None:
    async with node.process() as process:
        sandbox, checkpoint = await checkpointed(process)
        node.host.before = on("started", lambda: process.lifecycle.set_timeout(ORG, sandbox.id, 60))
        await process.restores.restore(ORG, sandbox.id, checkpoint.id)
        row = node.sandbox(sandbox)
        assert row.timeout_seconds == 60
        assert row.due_at is not None


async def test_sockets_are_told_that_the_sandbox_was_restored(node: Node) -> None:
    async with node.process() as process:
        sandbox, checkpoint = await checkpointed(process)
        live = await process.reach.live(ORG, sandbox.id)
        await process.restores.restore(ORG, sandbox.id, checkpoint.id)
        assert live.ended.is_set()
        assert live.ending is Ending.RESTORED


async def test_a_sandbox_keeps_its_size_or_gets_what_the_checkpoint_needs(node: Node) -> None:
    async with node.process() as process:
        sandbox, checkpoint = await checkpointed(process, shape=SandboxShape(8192, 2, 20480))
        for now, then in [((4096, 1), (8192, 2)), ((8192, 2), (8192, 2)), ((16384, 4), (16384, 4))]:
            await process.sandboxes.update(sandbox.id, {"shape": SandboxShape(*now, 20480)})
            await process.restores.restore(ORG, sandbox.id, checkpoint.id)
            await settle()
            assert node.sandbox(sandbox).shape == SandboxShape(*then, 20480)
            assert node.machine_of(sandbox).limits.memory_bytes == then[0] << 20


FAULTS = [StartFailed(), GuestFault("no answer")]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("step", ["start", "started", "identify"])
async def test_when_it_fails_the_sandbox_is_what_it_was_before(
    node: Node, step: str, fault: OpenComputerError
) -> None:
    async with node.process() as process:
        sandbox, checkpoint = await checkpointed(process)
        before, old = node.sandbox(sandbox), await process.reach.live(ORG, sandbox.id)
        node.host.before = on(step, fault)
        with pytest.raises(StartFailed):
            await process.restores.restore(ORG, sandbox.id, checkpoint.id)
        assert node.sandbox(sandbox) == before
        assert await process.reach.live(ORG, sandbox.id) is old
        assert not old.ended.is_set()
        check_rest(node, process)


async def test_damaged_memory_is_an_error_and_no_silent_cold_start(node: Node) -> None:
    """The user asked for that very state."""
    async with node.process() as process:
        sandbox, checkpoint = await checkpointed(process)
        assert checkpoint.memory is not None
        process.artefacts.damage(checkpoint.memory.id)
        started = len(node.host.started)
        with pytest.raises(ArtefactDamaged):
            await process.restores.restore(ORG, sandbox.id, checkpoint.id)
        assert len(node.host.started) == started
        assert node.sandbox(sandbox).state is SandboxState.RUNNING


@pytest.mark.parametrize("broken", ["memory", "layer"])
async def test_so_is_missing_memory_and_are_missing_files(node: Node, broken: str) -> None:
    async with node.process() as process:
        sandbox, checkpoint = await checkpointed(process)
        process.artefacts.before = on(broken, ArtefactMissing())
        with pytest.raises(ArtefactMissing):
            await process.restores.restore(ORG, sandbox.id, checkpoint.id)
        assert await process.reach.live(ORG, sandbox.id)


async def test_a_successor_that_was_claimed_in_vain_leaves_no_trace_in_the_row(node: Node) -> None:
    """Or the next server would look for a machine that is gone, and the sandbox would be lost."""
    async with node.process() as process:
        sandbox, checkpoint = await checkpointed(process)
        node.machine_of(sandbox).writable["later"] = "text"
        before = node.sandbox(sandbox)

        async def fail_when_claimed() -> None:
            if node.sandbox(sandbox).machine_id != before.machine_id:
                raise OSError("disk I/O error")

        node.tables.before = on("sandboxes.move", fail_when_claimed, times=2)
        with pytest.raises(OSError, match="disk I/O"):
            await process.restores.restore(ORG, sandbox.id, checkpoint.id)
        await settle()
        assert node.sandbox(sandbox) == before
        check_rest(node, process)
    async with node.process(recover=True) as process:
        assert (await process.reach.live(ORG, sandbox.id)).machine.id == before.machine_id


async def test_a_machine_that_dies_meanwhile_is_no_loss_when_its_successor_is_there(node: Node) -> None:
    async with node.process() as process:
        sandbox, checkpoint = await checkpointed(process)

        async def die() -> None:
            node.machine_of(sandbox).die()
            await asyncio.sleep(1)

        node.host.before = on("started", die)
        await process.restores.restore(ORG, sandbox.id, checkpoint.id)
        await settle()
        assert node.sandbox(sandbox).state is SandboxState.RUNNING
        check_rest(node, process)


async def test_a_machine_that_dies_meanwhile_is_noticed_when_there_is_no_successor(node: Node) -> None:
    async with node.process() as process:
        sandbox, checkpoint = await checkpointed(process)

        async def die() -> None:
            node.machine_of(sandbox).die()
            await asyncio.sleep(1)
            raise StartFailed

        node.host.before = on("start", die)
        with pytest.raises(StartFailed):
            await process.restores.restore(ORG, sandbox.id, checkpoint.id)
        await settle()
        assert node.sandbox(sandbox).stop_reason == "crash"
        check_rest(node, process)


async def test_only_a_running_sandbox_can_go_back_and_only_to_a_checkpoint_of_its_own(node: Node) -> None:
    async with node.process() as process:
        sandbox, checkpoint = await checkpointed(process)
        other = await process.create()
        with pytest.raises(InvalidInput, match="another sandbox"):
            await process.restores.restore(ORG, other.id, checkpoint.id)
        with pytest.raises(NotFound):
            await process.restores.restore(ORG, sandbox.id, SnapshotId("nothing"))
        with pytest.raises(NotFound):
            await process.restores.restore(OTHER_ORG, sandbox.id, checkpoint.id)
        await process.hibernation.hibernate(ORG, sandbox.id)
        with pytest.raises(InvalidInput, match="not running"):
            await process.restores.restore(ORG, sandbox.id, checkpoint.id)
        await process.lifecycle.kill(ORG, sandbox.id)
        with pytest.raises(Gone):
            await process.restores.restore(ORG, sandbox.id, checkpoint.id)


async def test_patches_are_not_run_and_count_as_they_did(node: Node) -> None:
    async with node.process() as process:
        _, first = await checkpointed(process)
        await process.patches.add(ORG, first.id, "one", None)
        fork = (await process.forks.from_checkpoint(ORG, first.id, ForkRequest())).sandbox
        checkpoint = await process.checkpoint(fork)
        await process.patches.add(ORG, first.id, "two", None)
        await process.hibernation.hibernate(ORG, fork.id)
        await process.hibernation.wake(ORG, fork.id)
        await settle()
        assert node.sandbox(fork).patch_position == 2
        await process.restores.restore(ORG, fork.id, checkpoint.id)
        await settle()
        assert node.sandbox(fork).patch_position == 1
        ran = node.machine_of(fork).processes.by_id.values()
        assert [each.spec.argv[-1] for each in ran] == ["one"]
