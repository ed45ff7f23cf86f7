"""Patches: once each, in order, stopping at the first that fails and going on from there."""

from __future__ import annotations

import asyncio

import pytest

from opencomputer.server.contracts.machine import ExitStatus
from opencomputer.server.domain.errors import Conflict, InvalidInput, MachineLost, NotFound, SnapshotRefused
from opencomputer.server.domain.sandbox import Sandbox
from opencomputer.server.domain.snapshot import Snapshot
from opencomputer.server.services.sandboxes.checkpoints import NewCheckpoint
from opencomputer.server.services.sandboxes.forks import ForkRequest
from opencomputer.server.services.sandboxes.patches import PATCH_SECONDS
from opencomputer.wire.ids import PatchId, SnapshotId
from opencomputer.wire.patches import MAX_SCRIPT_BYTES
from tests.support.memory.machines import MemoryMachine
from tests.support.memory.processes import MemoryProcess
from tests.unit.server.services.harness import ORG, OTHER_ORG, Node, Process, on, settle

pytestmark = pytest.mark.anyio


class Programs:
    """What scripts do in every machine of a host, and which were run, in which order."""

    def __init__(self, node: Node) -> None:
        self.run: list[str] = []
        self.failing: dict[str, ExitStatus] = {}
        self.hanging: set[str] = set()
        self._node = node
        node.host.before = self._started

    async def _started(self, step: str, _machine: object) -> None:
        if step == "identify":
            for machine in self._node.host.machines.values():
                self.watch(machine)

    def watch(self, machine: MemoryMachine) -> None:
        machine.processes.program = self._begin

    def _begin(self, process: MemoryProcess) -> None:
        script = process.spec.argv[-1]
        self.run.append(script)
        if script in self.failing:
            process.output(1, b"said on the way\n")
            process.output(2, b"x" * 600 + f"{script} went wrong\n".encode())
        if script not in self.hanging:
            process.end(self.failing.get(script, ExitStatus(0)))


async def checkpointed(process: Process) -> Snapshot:
    return await process.checkpoint(await process.create())


async def add(process: Process, checkpoint: Snapshot, *scripts: str) -> None:
    for script in scripts:
        await process.patches.add(ORG, checkpoint.id, script, None)


async def fork(process: Process, checkpoint: Snapshot) -> Sandbox:
    return (await process.forks.from_checkpoint(ORG, checkpoint.id, ForkRequest())).sandbox


async def sleep_and_wake(process: Process, sandbox: Sandbox) -> None:
    await process.hibernation.hibernate(ORG, sandbox.id)
    await process.hibernation.wake(ORG, sandbox.id)
    await settle()


def _all_processes(node: Node) -> list[MemoryProcess]:
    return [each for machine in node.host.machines.values() for each in machine.processes.by_id.values()]


# Numbers


async def test_numbers_only_grow_and_are_never_used_again(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await checkpointed(process)
        await add(process, checkpoint, "one", "two", "three")
        patches = await process.patches.list(ORG, checkpoint.id)
        assert [(each.sequence, each.script) for each in patches] == [(1, "one"), (2, "two"), (3, "three")]
        await process.patches.delete(ORG, checkpoint.id, patches[-1].id)
        added = await process.patches.add(ORG, checkpoint.id, "four", "what it is for")
        assert (added.sequence, added.description) == (4, "what it is for")


@pytest.mark.parametrize("script", ["", " \n", "x" * (MAX_SCRIPT_BYTES + 1)])
async def test_a_script_has_to_be_one(node: Node, script: str) -> None:
    async with node.process() as process:
        checkpoint = await checkpointed(process)
        with pytest.raises(InvalidInput):
            await add(process, checkpoint, script)


async def test_only_a_checkpoint_that_is_ready_can_be_patched(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        process.artefacts.before = on("keep_memory", lambda: asyncio.sleep(5), times=1)
        processing = await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("one"))
        with pytest.raises(Conflict, match="processing"):
            await add(process, processing, "true")
        await settle(10)
        node.host.before = on("save", SnapshotRefused())
        failed = await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("two"))
        await settle()
        with pytest.raises(Conflict, match="failed"):
            await add(process, failed, "true")


async def test_only_the_owner_may_patch_a_public_checkpoint_too(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await checkpointed(process)
        await process.checkpoints.publish(ORG, checkpoint.id, public=True)
        patch = await process.patches.add(ORG, checkpoint.id, "true", None)
        for forbidden in (
            process.patches.add(OTHER_ORG, checkpoint.id, "true", None),
            process.patches.list(OTHER_ORG, checkpoint.id),
            process.patches.delete(OTHER_ORG, checkpoint.id, patch.id),
            process.patches.add(ORG, SnapshotId("nothing"), "true", None),
            process.patches.delete(ORG, checkpoint.id, PatchId("nothing")),
        ):
            with pytest.raises(NotFound):
                await forbidden


async def test_what_a_sandbox_sleeps_as_cannot_be_patched(node: Node) -> None:
    async with node.process() as process:
        asleep = await process.asleep()
        assert asleep.hibernation is not None
        with pytest.raises(NotFound):
            await process.patches.list(ORG, asleep.hibernation)


# When they run


async def test_a_fork_has_run_all_of_them_in_order_when_it_is_returned(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await checkpointed(process)
        await add(process, checkpoint, "one", "two", "three")
        programs = Programs(node)
        row = await fork(process, checkpoint)
        assert programs.run == ["one", "two", "three"]
        assert (row.patch_source, row.patch_position, row.patch_error) == (checkpoint.id, 3, None)


async def test_a_script_is_run_by_bash_as_the_user_with_a_limit(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await checkpointed(process)
        await add(process, checkpoint, "echo hello")
        (ran,) = node.machine_of(await fork(process, checkpoint)).processes.by_id.values()
        spec = ran.spec
        assert spec.argv == ("bash", "-c", "echo hello")
        assert (spec.user, spec.cwd, spec.stdin, spec.timeout_seconds) == (
            "sandbox",
            None,
            False,
            PATCH_SECONDS,
        )


async def test_wake_runs_only_those_that_are_new(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await checkpointed(process)
        await add(process, checkpoint, "one")
        programs = Programs(node)
        row = await fork(process, checkpoint)
        await add(process, checkpoint, "two")
        await settle(60)
        assert programs.run == ["one"]
        await sleep_and_wake(process, row)
        await sleep_and_wake(process, row)
        assert programs.run == ["one", "two"]
        assert node.sandbox(row).patch_position == 2


async def test_wake_does_not_wait_for_them(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await checkpointed(process)
        row = await fork(process, checkpoint)
        await add(process, checkpoint, "long")
        Programs(node).hanging.add("long")
        await sleep_and_wake(process, row)
        assert await process.reach.live(ORG, row.id)
        assert node.sandbox(row).patch_position == 0


async def test_the_source_itself_is_never_patched(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        checkpoint = await process.checkpoint(source)
        await add(process, checkpoint, "one")
        programs = Programs(node)
        await sleep_and_wake(process, source)
        await process.restores.restore(ORG, source.id, checkpoint.id)
        await settle()
        assert programs.run == []


async def test_a_copy_of_a_patched_sandbox_does_not_run_them_twice(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await checkpointed(process)
        await add(process, checkpoint, "one")
        first = await fork(process, checkpoint)
        own = await process.checkpoint(first)
        programs = Programs(node)
        second = await fork(process, own)
        await sleep_and_wake(process, second)
        assert programs.run == []
        await add(process, own, "two")
        await sleep_and_wake(process, second)
        assert programs.run == ["two"]


async def test_forks_in_flight_see_the_patches_of_their_start(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await checkpointed(process)
        await add(process, checkpoint, "one")
        programs = Programs(node)
        programs.hanging.add("one")
        forking = asyncio.create_task(fork(process, checkpoint))
        await settle()
        await add(process, checkpoint, "two")
        (running,) = [each for each in _all_processes(node) if each.exit is None]
        running.end()
        row = await forking
        assert programs.run == ["one"]
        assert row.patch_position == 1


# When one fails


async def test_the_first_that_fails_stops_the_others_and_the_sandbox_stays_usable(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await checkpointed(process)
        await add(process, checkpoint, "one", "two", "three")
        programs = Programs(node)
        programs.failing["two"] = ExitStatus(3)
        row = await fork(process, checkpoint)
        assert programs.run == ["one", "two"]
        assert row.patch_position == 1
        assert row.patch_error is not None
        assert row.patch_error.startswith("patch 2 failed (exit 3): xxx")
        assert row.patch_error.endswith("two went wrong")
        assert len(row.patch_error) < 600
        assert "said on the way" not in row.patch_error
        assert await process.reach.live(ORG, row.id)


async def test_the_next_wake_goes_on_from_the_one_that_failed(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await checkpointed(process)
        await add(process, checkpoint, "one", "two", "three")
        programs = Programs(node)
        programs.failing["two"] = ExitStatus(1)
        row = await fork(process, checkpoint)
        await sleep_and_wake(process, row)
        assert programs.run == ["one", "two", "two"]
        programs.failing.clear()
        await sleep_and_wake(process, row)
        assert programs.run == ["one", "two", "two", "two", "three"]
        assert (node.sandbox(row).patch_position, node.sandbox(row).patch_error) == (3, None)


async def test_deleting_the_one_that_fails_lets_the_others_run(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await checkpointed(process)
        await add(process, checkpoint, "one", "two", "three")
        programs = Programs(node)
        programs.failing["two"] = ExitStatus(1)
        row = await fork(process, checkpoint)
        _, bad, _ = await process.patches.list(ORG, checkpoint.id)
        await process.patches.delete(ORG, checkpoint.id, bad.id)
        await sleep_and_wake(process, row)
        assert programs.run == ["one", "two", "three"]
        assert (node.sandbox(row).patch_position, node.sandbox(row).patch_error) == (3, None)


async def test_deleting_the_last_one_clears_the_error(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await checkpointed(process)
        await add(process, checkpoint, "one")
        programs = Programs(node)
        programs.failing["one"] = ExitStatus(1)
        row = await fork(process, checkpoint)
        (bad,) = await process.patches.list(ORG, checkpoint.id)
        await process.patches.delete(ORG, checkpoint.id, bad.id)
        await sleep_and_wake(process, row)
        assert node.sandbox(row).patch_error is None


async def test_one_that_cannot_be_started_says_so(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await checkpointed(process)
        await add(process, checkpoint, "one")
        programs = Programs(node)
        programs.failing["one"] = ExitStatus(127, error="bash: no such file")
        row = await fork(process, checkpoint)
        assert row.patch_error is not None
        assert "exit 127" in row.patch_error
        assert "bash: no such file" in row.patch_error


async def test_all_of_them_together_have_ten_minutes(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await checkpointed(process)
        await add(process, checkpoint, "one", "long", "three")
        programs = Programs(node)
        programs.hanging.add("long")
        began = process.clock.monotonic()
        row = await fork(process, checkpoint)
        assert process.clock.monotonic() == pytest.approx(began + 600)
        assert row.patch_position == 1
        assert row.patch_error == "the patches took longer than 600 s in all"


# When something else happens meanwhile


async def long_patch(node: Node, process: Process) -> tuple[Sandbox, MemoryProcess]:
    """A woken sandbox with a patch that runs until the test ends it."""
    row = await fork(process, checkpoint := await checkpointed(process))
    await add(process, checkpoint, "long")
    Programs(node).hanging.add("long")
    await sleep_and_wake(process, row)
    (running,) = node.machine_of(row).processes.by_id.values()
    return row, running


async def test_a_patch_that_runs_keeps_its_sandbox_awake(node: Node) -> None:
    async with node.process() as process:
        row, running = await long_patch(node, process)
        live = await process.reach.live(ORG, row.id)
        await asyncio.sleep(200)
        assert live.activity.last() == process.clock.now()
        running.end()
        await settle()
        assert live.activity.last() < process.clock.now()


async def test_a_patch_that_ends_during_a_restore_does_not_count(node: Node) -> None:
    """What it did to the files is not part of the sandbox any more."""
    async with node.process() as process:
        row, running = await long_patch(node, process)
        checkpoint = await process.checkpoint(row)

        async def end() -> None:
            running.end()
            await asyncio.sleep(1)

        node.host.before = on("identify", end)
        await process.restores.restore(ORG, row.id, checkpoint.id)
        await settle()
        assert node.sandbox(row).patch_position == 0


async def test_a_patch_whose_machine_goes_is_run_again_at_the_next_wake(node: Node) -> None:
    async with node.process() as process:
        row, _ = await long_patch(node, process)
        programs = Programs(node)
        await sleep_and_wake(process, row)
        assert programs.run == ["long"]
        assert (node.sandbox(row).patch_position, node.sandbox(row).patch_error) == (1, None)


async def test_a_fork_whose_machine_dies_under_its_patches_is_told_and_gone(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await checkpointed(process)
        await add(process, checkpoint, "long")
        Programs(node).hanging.add("long")
        forking = asyncio.create_task(fork(process, checkpoint))
        await settle()
        (machine,) = [each for each in node.host.machines.values() if each.processes.by_id]
        machine.die()
        with pytest.raises(MachineLost):
            await forking
        await settle()
        assert len(node.host.machines) == 1
