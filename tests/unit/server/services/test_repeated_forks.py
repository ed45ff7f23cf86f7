"""Forks that are asked for again with their idempotency key: they are made once, or not at all."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from opencomputer.server.domain.errors import IdempotencyMismatch, StartFailed
from opencomputer.server.domain.sandbox import SandboxState
from opencomputer.server.domain.snapshot import SnapshotKind
from opencomputer.server.services.sandboxes.forks import ForkRequest, fork_keys
from tests.unit.server.services.harness import ORG, Node, on, settle
from tests.unit.server.services.steps import check_rest

pytestmark = pytest.mark.anyio

ONCE = ForkRequest(idempotency_key="once", request_hash="one")
OTHER = replace(ONCE, request_hash="another")


@pytest.mark.parametrize("kind", SnapshotKind)
async def test_a_checkpoint_is_forked_once_for_a_key(node: Node, kind: SnapshotKind) -> None:
    async with node.process() as process:
        checkpoint = await process.checkpoint(await process.create(), kind)
        first = await process.forks.from_checkpoint(ORG, checkpoint.id, ONCE)
        again = await process.forks.from_checkpoint(ORG, checkpoint.id, ONCE)
        assert (again.sandbox, again.memory_restored) == (first.sandbox, first.memory_restored)
        assert len(node.host.machines) == 2


async def test_requests_that_come_at_once_make_one_fork_whose_patches_run_once(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await process.checkpoint(await process.create())
        await process.patches.add(ORG, checkpoint.id, "true", None)
        work = [process.forks.from_checkpoint(ORG, checkpoint.id, ONCE) for _ in range(3)]
        made = await asyncio.gather(*work)
        assert len({each.sandbox.id for each in made}) == 1
        assert made[0].sandbox.patch_position == 1
        assert len(node.machine_of(made[0].sandbox).processes.by_id) == 1


async def test_a_key_is_for_one_request(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        checkpoint = await process.checkpoint(source)
        await process.forks.from_checkpoint(ORG, checkpoint.id, ONCE)
        with pytest.raises(IdempotencyMismatch):
            await process.forks.from_checkpoint(ORG, checkpoint.id, OTHER)
        with pytest.raises(IdempotencyMismatch):
            await process.forks.fork(ORG, source.id, 2, OTHER)
        assert len(node.host.machines) == 2


async def test_a_fork_that_failed_may_be_asked_for_again(node: Node) -> None:
    async with node.process() as process:
        checkpoint = await process.checkpoint(await process.create())
        await process.patches.add(ORG, checkpoint.id, "true", None)
        node.tables.before = on("patches.list", OSError("a bug"), times=1)
        with pytest.raises(OSError, match="a bug"):
            await process.forks.from_checkpoint(ORG, checkpoint.id, ONCE)
        fork = await process.forks.from_checkpoint(ORG, checkpoint.id, ONCE)
        assert fork.sandbox.state is SandboxState.RUNNING


async def test_a_fork_that_was_killed_meanwhile_is_told_as_it_is(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        checkpoint = await process.checkpoint(source)
        fork = await process.forks.from_checkpoint(ORG, checkpoint.id, ONCE)
        await process.lifecycle.kill(ORG, fork.sandbox.id)
        await process.checkpoints.delete(ORG, source.id, checkpoint.id)
        again = await process.forks.from_checkpoint(ORG, checkpoint.id, ONCE)
        assert (again.sandbox.id, again.sandbox.state) == (fork.sandbox.id, SandboxState.STOPPED)


async def test_a_running_sandbox_is_forked_once_for_a_key_also_when_it_has_ended(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        work = [process.forks.fork(ORG, source.id, 3, ONCE) for _ in range(2)]
        first, second = await asyncio.gather(*work)
        assert [each.sandbox.id for each in first] == [each.sandbox.id for each in second]
        await process.lifecycle.kill(ORG, source.id)
        third = await process.forks.fork(ORG, source.id, 3, ONCE)
        assert {each.sandbox.id for each in third} == {each.sandbox.id for each in first}
        assert all(each.memory_restored for each in third)


async def test_forks_that_failed_together_may_be_asked_for_again(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        left = 2

        async def fail_one() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise StartFailed

        node.host.before = on("start", fail_one)
        with pytest.raises(StartFailed):
            await process.forks.fork(ORG, source.id, 3, ONCE)
        assert len(await process.forks.fork(ORG, source.id, 3, ONCE)) == 3
        await settle()
        assert len(node.host.machines) == 4
        check_rest(node, process)


async def test_forks_of_which_a_process_left_a_part_are_all_made_anew(node: Node) -> None:
    """Their instant is gone, and nobody was told of any."""
    async with node.process() as process:
        source = await process.create()
        forks = await process.forks.fork(ORG, source.id, 3, ONCE)
        lost = forks[1].sandbox
        node.tables.sandboxes[lost.id] = replace(lost, idempotency_key=None)
    async with node.process(recover=True) as process:
        anew = await process.forks.fork(ORG, source.id, 3, ONCE)
        assert not {each.sandbox.id for each in forks} & {each.sandbox.id for each in anew}
        for each in (forks[0], forks[2]):
            assert node.sandbox(each.sandbox).state is SandboxState.STOPPED


def test_forks_have_keys_of_their_own_and_the_first_has_the_requests() -> None:
    keys = fork_keys("once", 16)
    assert (keys[0], len(set(keys))) == ("once", 16)
    assert fork_keys("once", 3) == keys[:3]
