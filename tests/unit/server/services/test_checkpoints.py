"""Checkpoints: processing at once, ready only when durable, failed with a reason, and the source runs on."""

from __future__ import annotations

import asyncio

import pytest

from opencomputer.server.domain.errors import (
    Conflict,
    Gone,
    HostDiskFull,
    InvalidInput,
    MachineLost,
    NotFound,
    OperationInProgress,
    SnapshotRefused,
)
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.domain.snapshot import (
    MAX_CHECKPOINTS,
    Retention,
    Snapshot,
    SnapshotKind,
    SnapshotState,
)
from opencomputer.server.services.sandboxes.checkpoints import NewCheckpoint
from opencomputer.wire.ids import SandboxId, SnapshotId
from tests.support import rows
from tests.unit.server.services.harness import ORG, OTHER_ORG, Node, Process, on, settle

pytestmark = pytest.mark.anyio

FULL, DISK_ONLY = SnapshotKind.FULL, SnapshotKind.DISK_ONLY


async def names(process: Process, sandbox: Sandbox) -> list[str]:
    return [each.name for each in await process.checkpoints.list(ORG, sandbox.id)]


def put(node: Node, sandbox: Sandbox, count: int, **changes: object) -> list[Snapshot]:
    """Checkpoints that are there already, oldest first."""
    made = [
        rows.checkpoint(
            ORG,
            sandbox.id,
            **{
                "state": SnapshotState.READY,
                "created_at": rows.at(number),
                "name": f"old {number}",
                **changes,
            },
        )
        for number in range(count)
    ]
    node.tables.snapshots |= {each.id: each for each in made}
    return made


async def test_a_checkpoint_is_processing_at_once_and_ready_when_all_of_it_is_durable(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        process.artefacts.before = on("keep_memory", lambda: asyncio.sleep(60))
        began = process.clock.monotonic()
        created = await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("one"))
        assert process.clock.monotonic() == began
        assert created.state is SnapshotState.PROCESSING
        await asyncio.sleep(59)
        assert node.tables.snapshots[created.id].state is SnapshotState.PROCESSING
        await asyncio.sleep(2)
        ready = node.tables.snapshots[created.id]
        assert ready.state is SnapshotState.READY
        assert set(ready.origin.layers) <= process.artefacts.layer_ids
        assert ready.memory is not None
        assert ready.memory.id in process.artefacts.memory_ids
        assert ready.size_bytes > 0


async def test_one_of_files_only_has_no_memory(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        assert (await process.checkpoint(sandbox, DISK_ONLY)).memory is None
        assert process.artefacts.memory_ids == frozenset()


async def test_calls_are_served_while_a_checkpoint_is_made(node: Node) -> None:
    """The machine itself makes them wait while it is paused; nothing is refused."""
    async with node.process() as process:
        sandbox = await process.create()
        node.host.before = on("save", lambda: asyncio.sleep(5))
        creating = asyncio.create_task(process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("one")))
        await asyncio.sleep(1)
        live = await process.reach.live(ORG, sandbox.id)
        assert await live.machine.processes.list() == []
        await creating


async def test_what_follows_the_answer_is_not_in_the_checkpoint(node: Node) -> None:
    """The answer comes when the machine goes on, and does not wait for durability."""
    async with node.process() as process:
        sandbox = await process.create()
        node.host.before = on("save", lambda: asyncio.sleep(5))
        process.artefacts.before = on("keep_layer", lambda: asyncio.sleep(60))
        began = process.clock.monotonic()
        created = await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("one"))
        assert process.clock.monotonic() - began == pytest.approx(5, abs=0.1)
        assert not process.transitions.busy(sandbox.id)
        assert node.tables.snapshots[created.id].state is SnapshotState.PROCESSING


async def test_the_answer_comes_before_clients_give_up(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.host.before = on("save", lambda: asyncio.sleep(300))
        began = process.clock.monotonic()
        created = await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("one"))
        assert process.clock.monotonic() - began == pytest.approx(20, abs=0.1)
        assert process.transitions.busy(sandbox.id)
        await settle(400)
        assert node.tables.snapshots[created.id].state is SnapshotState.READY


@pytest.mark.parametrize("where", ["save", "keep_layer"])
async def test_the_answer_does_not_wait_for_what_has_failed(node: Node, where: str) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        failing = node.host if where == "save" else process.artefacts
        failing.before = on(where, SnapshotRefused())
        began = process.clock.monotonic()
        await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("one"))
        assert process.clock.monotonic() - began < 1


async def test_others_are_excluded_only_until_the_machine_has_gone_on(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.host.before = on("save", lambda: asyncio.sleep(2))
        process.artefacts.before = on("keep_memory", lambda: asyncio.sleep(10))
        creating = asyncio.create_task(process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("one")))
        await asyncio.sleep(1)
        with pytest.raises(OperationInProgress):
            await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("two"))
        first = await creating
        await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("two"))
        assert node.tables.snapshots[first.id].state is SnapshotState.PROCESSING
        await settle(30)
        assert {each.state for each in node.tables.snapshots.values()} == {SnapshotState.READY}


FAULTS = [SnapshotRefused("a socket to the host is open"), HostDiskFull(), MachineLost()]


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_machine_that_cannot_be_saved_runs_on_and_the_checkpoint_says_why(
    node: Node, fault: SnapshotRefused
) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.host.before = on("save", fault)
        created = await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("one"))
        await settle()
        failed = node.tables.snapshots[created.id]
        assert (failed.state, failed.error) == (SnapshotState.FAILED, fault.message)
        assert failed.failed_at is not None
        assert await process.reach.live(ORG, sandbox.id)


async def test_what_goes_wrong_inside_the_server_is_not_told_to_users(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        process.artefacts.before = on("keep_layer", OSError("/var/lib/secret: no space"))
        created = await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("one"))
        await settle()
        assert node.tables.snapshots[created.id].error == "the server failed; see its log"


async def test_one_that_takes_too_long_fails(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        process.artefacts.before = on("keep_memory", lambda: asyncio.sleep(7200))
        created = await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("one"))
        await settle(1201)
        failed = node.tables.snapshots[created.id]
        assert (failed.state, failed.error) == (SnapshotState.FAILED, "it took longer than 1200 s")


# What is refused


@pytest.mark.parametrize("name", ["", "  ", "x" * 129])
async def test_a_name_has_to_be_one(node: Node, name: str) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        with pytest.raises(InvalidInput):
            await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint(name))


async def test_a_name_is_taken_until_its_checkpoint_is_deleted_or_has_failed(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        first = await process.checkpoint(sandbox, name="one")
        with pytest.raises(Conflict, match="has this name"):
            await process.checkpoint(sandbox, name="one")
        assert not process.transitions.busy(sandbox.id)
        await process.checkpoints.delete(ORG, sandbox.id, first.id)
        node.host.before = on("save", SnapshotRefused(), times=1)
        with pytest.raises(InvalidInput):
            await process.checkpoint(sandbox, name="one")
        await process.checkpoint(sandbox, name="one")
        await process.checkpoint(await process.create(), name="one")


async def test_only_a_running_sandbox_of_ones_own_can_be_saved(node: Node) -> None:
    async with node.process() as process:
        asleep = await process.asleep()
        with pytest.raises(InvalidInput) as refused:
            await process.checkpoints.create(ORG, asleep.id, NewCheckpoint("one"))
        assert refused.value.details == {"status": "hibernated"}
        await process.lifecycle.kill(ORG, asleep.id)
        with pytest.raises(Gone):
            await process.checkpoints.create(ORG, asleep.id, NewCheckpoint("one"))
        running = await process.create()
        with pytest.raises(NotFound):
            await process.checkpoints.create(OTHER_ORG, running.id, NewCheckpoint("one"))
        with pytest.raises(NotFound):
            await process.checkpoints.create(ORG, SandboxId("sb-00000000"), NewCheckpoint("one"))


# How many there may be


@pytest.mark.parametrize("kind", SnapshotKind)
async def test_there_is_a_limit_for_each_kind(node: Node, kind: SnapshotKind) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        limit = MAX_CHECKPOINTS[kind]
        put(node, sandbox, limit, kind=kind)
        with pytest.raises(InvalidInput, match=str(limit)):
            await process.checkpoint(sandbox, kind)
        other = DISK_ONLY if kind is FULL else FULL
        assert await process.checkpoint(sandbox, other)


async def test_the_oldest_of_the_kind_that_nobody_needs_makes_room(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        published, patched, forked, oldest, newest = put(node, sandbox, 5)
        put(node, sandbox, 1, kind=DISK_ONLY, name="of files")
        await process.checkpoints.publish(ORG, published.id, public=True)
        await process.patches.add(ORG, patched.id, "true", None)
        fork = rows.sandbox(ORG, state=SandboxState.HIBERNATED, from_checkpoint=forked.id)
        node.tables.sandboxes[fork.id] = fork
        request = NewCheckpoint("new", retention=Retention(5))
        await process.checkpoints.create(ORG, sandbox.id, request)
        assert oldest.id not in node.tables.snapshots
        assert set(await names(process, sandbox)) == {
            *(each.name for each in (published, patched, forked, newest)),
            "of files",
            "new",
        }


async def test_when_not_enough_can_go_nothing_goes(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        for each in put(node, sandbox, 3)[1:]:
            await process.checkpoints.publish(ORG, each.id, public=True)
        before = await names(process, sandbox)
        with pytest.raises(InvalidInput, match="not enough"):
            await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("new", retention=Retention(2)))
        assert await names(process, sandbox) == before


async def test_when_the_name_is_taken_nothing_goes(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        _, newest = put(node, sandbox, 2)
        before = await names(process, sandbox)
        with pytest.raises(Conflict):
            await process.checkpoints.create(
                ORG, sandbox.id, NewCheckpoint(newest.name, retention=Retention(2))
            )
        assert await names(process, sandbox) == before


# List, delete, publish


async def test_they_are_listed_newest_first_and_outlive_their_sandbox(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        for name in ("one", "two", "three"):
            await process.checkpoint(sandbox, name=name)
            await settle()
        await process.lifecycle.kill(ORG, sandbox.id)
        await settle()
        assert await names(process, sandbox) == ["three", "two", "one"]
        await process.collection.sweep()
        process.artefacts.let_time_pass()
        await process.collection.sweep()
        (newest, *_) = await process.checkpoints.list(ORG, sandbox.id)
        assert set(newest.origin.layers) <= process.artefacts.layer_ids


async def test_one_that_is_deleted_while_it_is_made_stays_deleted(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        process.artefacts.before = on("keep_memory", lambda: asyncio.sleep(5))
        created = await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("one"))
        await process.checkpoints.delete(ORG, sandbox.id, created.id)
        await settle(10)
        assert node.tables.snapshots == {}
        assert process.artefacts.drafts == []


async def test_only_the_owner_may_do_anything_but_fork(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        checkpoint = await process.checkpoint(sandbox)
        public = await process.checkpoints.publish(ORG, checkpoint.id, public=True)
        assert public.is_public
        assert await process.checkpoints.publish(ORG, checkpoint.id, public=True) == public
        assert await process.checkpoints.usable(OTHER_ORG, checkpoint.id)
        with pytest.raises(NotFound):
            await process.checkpoints.publish(OTHER_ORG, checkpoint.id, public=False)
        with pytest.raises(NotFound):
            await process.checkpoints.delete(OTHER_ORG, sandbox.id, checkpoint.id)
        with pytest.raises(NotFound):
            await process.checkpoints.list(OTHER_ORG, sandbox.id)
        await process.checkpoints.publish(ORG, checkpoint.id, public=False)
        with pytest.raises(NotFound):
            await process.checkpoints.usable(OTHER_ORG, checkpoint.id)


async def test_another_sandboxs_checkpoint_is_told_from_none(node: Node) -> None:
    async with node.process() as process:
        sandbox, other = await process.create(), await process.create()
        checkpoint = await process.checkpoint(other)
        with pytest.raises(InvalidInput, match="another sandbox"):
            await process.checkpoints.delete(ORG, sandbox.id, checkpoint.id)
        with pytest.raises(NotFound):
            await process.checkpoints.delete(ORG, sandbox.id, SnapshotId("nothing"))


async def test_what_a_sandbox_sleeps_as_is_no_checkpoint(node: Node) -> None:
    async with node.process() as process:
        asleep = await process.asleep()
        assert asleep.hibernation is not None
        assert await process.checkpoints.list(ORG, asleep.id) == []
        with pytest.raises(NotFound):
            await process.checkpoints.usable(ORG, asleep.hibernation)


# Waiting until it is ready


async def test_who_needs_one_that_is_processing_waits_for_it(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        process.artefacts.before = on("keep_memory", lambda: asyncio.sleep(20))
        created = await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("one"))
        assert (await process.checkpoints.usable(ORG, created.id)).state is SnapshotState.READY


async def test_but_not_for_ever(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        process.artefacts.before = on("keep_memory", lambda: asyncio.sleep(60))
        created = await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("one"))
        began = process.clock.monotonic()
        with pytest.raises(InvalidInput, match="not ready"):
            await process.checkpoints.usable(ORG, created.id)
        assert process.clock.monotonic() == pytest.approx(began + 30)
        with pytest.raises(NotFound):
            await process.checkpoints.usable(OTHER_ORG, created.id)


@pytest.mark.parametrize("fault", [SnapshotRefused("a socket is open"), OSError("no space")])
async def test_who_waits_for_one_that_fails_is_told_why(node: Node, fault: Exception) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        process.artefacts.before = on("keep_memory", fault)
        created = await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("one"))
        with pytest.raises(
            InvalidInput, match=r"the checkpoint failed: (a socket is open|the server failed)"
        ):
            await process.checkpoints.usable(ORG, created.id)
