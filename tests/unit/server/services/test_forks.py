"""Forks: new sandboxes that go on from another one, usable when they are returned, all of them or none."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from opencomputer.server.domain.errors import (
    ArtefactMissing,
    ConcurrencyLimit,
    InvalidInput,
    NotFound,
    OpenComputerError,
    SnapshotRefused,
    StartFailed,
)
from opencomputer.server.domain.sandbox import SandboxShape, SandboxState
from opencomputer.server.domain.snapshot import Origin, SnapshotKind
from opencomputer.server.services.sandboxes.checkpoints import NewCheckpoint
from opencomputer.server.services.sandboxes.forks import MAX_FORKS_AT_ONCE, ForkRequest, fork_shape
from opencomputer.wire.ids import SandboxId, SnapshotId
from tests.unit.server.services.harness import ORG, OTHER_ORG, Node, on, settle
from tests.unit.server.services.steps import check_rest

pytestmark = pytest.mark.anyio

ANY = ForkRequest()


# From a checkpoint


async def test_a_fork_goes_on_with_the_memory_and_files_of_its_checkpoint(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        checkpoint = await process.checkpoint(source)
        fork = await process.forks.from_checkpoint(ORG, checkpoint.id, ANY)
        machine = node.machine_of(fork.sandbox)
        assert fork.memory_restored
        assert machine.spec.memory_image is not None
        assert fork.sandbox.layers == fork.sandbox.origin_layers == checkpoint.origin.layers
        assert fork.sandbox.from_checkpoint == checkpoint.id
        assert (await process.reach.live(ORG, fork.sandbox.id)).machine is machine
        assert node.sandbox(source).state is SandboxState.RUNNING


async def test_programs_can_tell_that_their_memory_was_copied(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        one = await process.forks.from_checkpoint(ORG, (await process.checkpoint(source)).id, ANY)
        two = await process.forks.from_checkpoint(ORG, (await process.checkpoint(one.sandbox)).id, ANY)
        generations = [node.machine_of(each).identity for each in (source, one.sandbox, two.sandbox)]
        assert [each and each.generation for each in generations] == [0, 1, 2]


async def test_environment_and_metadata_are_inherited_and_the_request_wins(node: Node) -> None:
    async with node.process() as process:
        source = await process.create(
            environment={"A": "1", "B": "1"}, metadata={"a": "1", "b": "1"}, timeout_seconds=60, alias="mine"
        )
        checkpoint = await process.checkpoint(source)
        request = ForkRequest(environment={"B": "2"}, metadata={"b": "2"})
        fork = (await process.forks.from_checkpoint(ORG, checkpoint.id, request)).sandbox
        assert fork.environment == {"A": "1", "B": "2"}
        assert fork.metadata == {"a": "1", "b": "2"}
        assert (fork.timeout_seconds, fork.due_at, fork.alias) == (0, None, None)
        identity = node.machine_of(fork).identity
        assert identity is not None
        assert identity.environment == fork.environment


@pytest.mark.parametrize(
    ("asked", "given"),
    [(None, 4096), (1024, 4096), (4096, 4096), (5000, 8192), (8192, 8192), (16384, 16384), (99999, 16384)],
)
def test_a_fork_is_never_smaller_than_its_source_and_of_a_size_there_is(
    asked: int | None, given: int
) -> None:
    origin = Origin("base", "h1", SandboxShape(4096, 1, 20480))
    shape = fork_shape(origin, asked)
    assert (shape.memory_mb, shape.disk_mb) == (given, 20480)
    assert shape.cpu_count == {4096: 1, 8192: 2, 16384: 4}[given]


async def test_memory_that_cannot_be_restored_means_a_cold_start_and_the_answer_says_so(node: Node) -> None:
    async with node.process() as process:
        source = await process.create(environment={"A": "1"})
        checkpoint = await process.checkpoint(source)
        assert checkpoint.memory is not None
        process.artefacts.damage(checkpoint.memory.id)
        fork = await process.forks.from_checkpoint(ORG, checkpoint.id, ANY)
        assert not fork.memory_restored
        identity = node.machine_of(fork.sandbox).identity
        assert identity is not None
        assert identity.environment["A"] == "1"


async def test_a_checkpoint_of_files_starts_cold(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await process.checkpoint(await process.create(), SnapshotKind.DISK_ONLY)
        fork = await process.forks.from_checkpoint(ORG, checkpoint.id, ANY)
        assert not fork.memory_restored
        assert fork.sandbox.layers == checkpoint.origin.layers


async def test_missing_files_fail_loudly_and_leave_nothing(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await process.checkpoint(await process.create())
        process.artefacts.lose(checkpoint.origin.layers[-1])
        with pytest.raises(ArtefactMissing):
            await process.forks.from_checkpoint(ORG, checkpoint.id, ANY)
        assert len(node.host.machines) == 1


async def test_a_fork_waits_for_a_checkpoint_that_is_processing(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        process.artefacts.before = on("keep_memory", lambda: asyncio.sleep(20), times=1)
        created = await process.checkpoints.create(ORG, source.id, NewCheckpoint("one"))
        assert (await process.forks.from_checkpoint(ORG, created.id, ANY)).memory_restored


async def test_a_failed_checkpoint_cannot_be_forked(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        node.host.before = on("save", SnapshotRefused("a socket is open"), times=1)
        created = await process.checkpoints.create(ORG, source.id, NewCheckpoint("one"))
        with pytest.raises(InvalidInput, match="a socket is open"):
            await process.forks.from_checkpoint(ORG, created.id, ANY)


async def test_who_may_not_see_a_checkpoint_cannot_fork_it(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        checkpoint = await process.checkpoint(source)
        for unknown in (checkpoint.id, SnapshotId("nothing")):
            with pytest.raises(NotFound):
                await process.forks.from_checkpoint(OTHER_ORG, unknown, ANY)
        await process.checkpoints.publish(ORG, checkpoint.id, public=True)
        fork = await process.forks.from_checkpoint(OTHER_ORG, checkpoint.id, ANY)
        assert fork.sandbox.org_id == OTHER_ORG
        with pytest.raises(NotFound):
            await process.reach.live(ORG, fork.sandbox.id)


async def test_ten_forks_of_one_checkpoint_at_once_all_succeed(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        node.machine_of(source).writable["file"] = "text"
        checkpoint = await process.checkpoint(source)
        forks = await asyncio.gather(
            *(process.forks.from_checkpoint(ORG, checkpoint.id, ANY) for _ in range(10))
        )
        assert len({each.sandbox.id for each in forks}) == 10
        check_rest(node, process)


async def test_a_fork_of_a_fork_ten_generations_deep_works(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        for number in range(10):
            node.machine_of(sandbox).writable[f"file-{number}"] = "text"
            checkpoint = await process.checkpoint(sandbox)
            sandbox = (await process.forks.from_checkpoint(ORG, checkpoint.id, ANY)).sandbox
        changes = await process.diffs.diff(ORG, sandbox.id, None)
        assert changes == []
        assert len(sandbox.layers) == 10


async def test_a_checkpoint_deleted_under_a_fork_does_not_harm_it(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        checkpoint = await process.checkpoint(source)

        async def delete() -> None:
            await process.checkpoints.delete(ORG, source.id, checkpoint.id)
            await process.collection.sweep()

        node.host.before = on("start", delete, times=1)
        fork = await process.forks.from_checkpoint(ORG, checkpoint.id, ANY)
        process.artefacts.let_time_pass()
        await process.collection.sweep()
        assert fork.memory_restored
        assert set(fork.sandbox.layers) <= process.artefacts.layer_ids


async def test_a_source_that_is_killed_or_gone_does_not_harm_its_forks(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        checkpoint = await process.checkpoint(source)
        await process.lifecycle.kill(ORG, source.id)
        await settle()
        process.artefacts.let_time_pass()
        await process.collection.sweep()
        assert (await process.forks.from_checkpoint(ORG, checkpoint.id, ANY)).memory_restored


@pytest.mark.parametrize("fault", [OSError("a bug"), StartFailed()])
async def test_a_fork_whose_patches_cannot_be_run_is_ended_because_nobody_learns_its_id(
    node: Node, fault: Exception
) -> None:
    async with node.process() as process:
        checkpoint = await process.checkpoint(await process.create())
        await process.patches.add(ORG, checkpoint.id, "true", None)
        node.tables.before = on("patches.list", fault)
        with pytest.raises(type(fault)):
            await process.forks.from_checkpoint(ORG, checkpoint.id, ANY)
        await settle()
        assert len(node.host.machines) == 1
        check_rest(node, process)


# Of a running sandbox


async def test_live_forks_are_of_one_instant(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        node.machine_of(source).writable["file"] = "text"
        saves = 0

        async def count() -> None:
            nonlocal saves
            saves += 1

        node.host.before = on("save", count)
        forks = await process.forks.fork(ORG, source.id, 3, ANY)
        assert saves == 1
        assert all(each.memory_restored for each in forks)
        assert len({each.sandbox.layers for each in forks}) == 1
        assert {each.sandbox.from_checkpoint for each in forks} == {None}
        check_rest(node, process)


async def test_no_two_forks_are_the_same_to_others(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        forks = await process.forks.fork(ORG, source.id, 3, ANY)
        machines = [node.machine_of(each) for each in (source, *(fork.sandbox for fork in forks))]
        identities = [machine.identity for machine in machines]
        for differs in ("sandbox_id", "hostname", "machine_id", "boot_id", "token", "entropy"):
            assert len({getattr(each, differs) for each in identities}) == 4, differs
        assert all(each is not None and each.copied for each in identities[1:])


async def test_the_source_goes_on_before_its_forks_are_started(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        seen: list[tuple[bool, bool]] = []

        async def look() -> None:
            seen.append((node.machine_of(source).paused, process.transitions.busy(source.id)))

        node.host.before = on("start", look)
        await process.forks.fork(ORG, source.id, 2, ANY)
        assert seen == [(False, False)] * 2


@pytest.mark.parametrize("count", [-1, 0, MAX_FORKS_AT_ONCE + 1])
async def test_there_is_a_limit_to_forks_at_once(node: Node, count: int) -> None:
    async with node.process() as process:
        source = await process.create()
        with pytest.raises(InvalidInput, match="count must be from 1 to"):
            await process.forks.fork(ORG, source.id, count, ANY)


@pytest.mark.parametrize("failing", [1, 2, 3])
@pytest.mark.parametrize("step", ["start", "started", "identify"])
async def test_when_one_of_them_fails_there_is_none(node: Node, step: str, failing: int) -> None:
    async with node.process() as process:
        source = await process.create()
        left = failing

        async def fail_one() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise StartFailed

        node.host.before = on(step, fail_one)
        with pytest.raises(StartFailed):
            await process.forks.fork(ORG, source.id, 3, ANY)
        await settle()
        assert node.sandbox(source).state is SandboxState.RUNNING
        assert len(node.host.machines) == 1
        check_rest(node, process)


async def test_more_than_an_organisation_may_have_running_are_not_made(node: Node) -> None:
    node.concurrency_limit = 3
    async with node.process() as process:
        source = await process.create()
        with pytest.raises(ConcurrencyLimit):
            await process.forks.fork(ORG, source.id, 3, ANY)
        await settle()
        assert len(node.host.machines) == 1
        assert len(await process.forks.fork(ORG, source.id, 2, ANY)) == 2


async def test_a_machine_that_cannot_be_saved_runs_on(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        node.host.before = on("save", SnapshotRefused("a socket is open"))
        with pytest.raises(SnapshotRefused, match="a socket is open"):
            await process.forks.fork(ORG, source.id, 2, ANY)
        assert await process.reach.live(ORG, source.id)
        check_rest(node, process)


async def test_one_that_sleeps_is_woken_and_forked(node: Node) -> None:
    async with node.process() as process:
        source = await process.asleep()
        (fork,) = await process.forks.fork(ORG, source.id, 1, ANY)
        assert fork.memory_restored
        assert node.sandbox(source).state is SandboxState.RUNNING


async def test_a_live_fork_inherits_what_was_patched(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await process.checkpoint(await process.create())
        await process.patches.add(ORG, checkpoint.id, "true", None)
        source = (await process.forks.from_checkpoint(ORG, checkpoint.id, ANY)).sandbox
        ran = set(node.machine_of(source).processes.by_id)
        (fork,) = await process.forks.fork(ORG, source.id, 1, ANY)
        assert (fork.sandbox.patch_source, fork.sandbox.patch_position) == (checkpoint.id, 1)
        assert set(node.machine_of(fork.sandbox).processes.by_id) == ran


async def test_another_organisations_sandbox_is_none(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        for unknown in (source.id, SandboxId("sb-00000000")):
            with pytest.raises(NotFound):
                await process.forks.fork(OTHER_ORG, unknown, 1, ANY)


async def test_a_template_that_is_built_anew_between_changes_nothing(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await process.checkpoint(await process.create())
        (old,) = node.templates.templates
        node.templates.templates, node.templates.old = [replace(old, hash="h2")], [old]
        fork = await process.forks.from_checkpoint(ORG, checkpoint.id, ANY)
        assert fork.sandbox.template_hash == "h1"
        node.templates.old = []
        with pytest.raises(OpenComputerError):
            await process.forks.from_checkpoint(ORG, checkpoint.id, ANY)
