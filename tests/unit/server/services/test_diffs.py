"""What files of a sandbox have changed, whatever state it is in, without waking it."""

from __future__ import annotations

import pytest

from opencomputer.server.domain.errors import (
    ArtefactMissing,
    Gone,
    InvalidInput,
    NotFound,
    OperationInProgress,
    SnapshotRefused,
)
from opencomputer.server.domain.layers import Change, ChangeKind
from opencomputer.server.domain.sandbox import SandboxState
from opencomputer.server.services.sandboxes.forks import ForkRequest
from opencomputer.wire.ids import SnapshotId
from tests.unit.server.services.harness import ORG, OTHER_ORG, Node, on, settle
from tests.unit.server.services.steps import check_rest

pytestmark = pytest.mark.anyio


def added(path: str, text: str) -> Change:
    return Change(path, ChangeKind.ADDED, len(text))


def changed(path: str, text: str) -> Change:
    return Change(path, ChangeKind.CHANGED, len(text))


async def test_a_new_sandbox_has_no_changes(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        assert await process.diffs.diff(ORG, sandbox.id, None) == []
        check_rest(node, process)


async def test_changes_are_told_by_path_in_order_with_sizes(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.machine_of(sandbox).writable = {"b": "22", "a": "1", "c": "333"}
        assert await process.diffs.diff(ORG, sandbox.id, None) == [
            added("/a", "1"),
            added("/b", "22"),
            added("/c", "333"),
        ]


async def test_who_it_is_is_no_change(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.machine_of(sandbox).writable = {"etc/hostname": "sb-1", "etc/machine-id": "2", "etc/issue": "3"}
        told = [each.path for each in await process.diffs.diff(ORG, sandbox.id, None)]
        assert told == ["/etc", "/etc/issue"]


async def test_since_a_checkpoint_only_later_changes_are_told(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        machine = node.machine_of(sandbox)
        machine.writable = {"a": "1", "b": "1"}
        checkpoint = await process.checkpoint(sandbox)
        machine.writable = {"a": "1", "b": "two", "c": "3"}
        assert await process.diffs.diff(ORG, sandbox.id, checkpoint.id) == [
            changed("/b", "two"),
            added("/c", "3"),
        ]


async def test_one_that_sleeps_is_compared_and_sleeps_on(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.machine_of(sandbox).writable = {"a": "1"}
        await process.hibernation.hibernate(ORG, sandbox.id)
        started = len(node.host.started)
        assert await process.diffs.diff(ORG, sandbox.id, None) == [added("/a", "1")]
        assert node.sandbox(sandbox).state is SandboxState.HIBERNATED
        assert len(node.host.started) == started


async def test_a_sleep_or_a_reboot_in_between_changes_nothing(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.machine_of(sandbox).writable = {"a": "1"}
        checkpoint = await process.checkpoint(sandbox)
        node.machine_of(sandbox).writable = {"a": "1", "b": "2"}
        await process.power.reboot(ORG, sandbox.id)
        await settle()
        node.machine_of(sandbox).writable = {"c": "3"}
        await process.hibernation.hibernate(ORG, sandbox.id)
        await process.hibernation.wake(ORG, sandbox.id)
        node.machine_of(sandbox).writable = {"d": "4"}
        later = [added("/b", "2"), added("/c", "3"), added("/d", "4")]
        assert await process.diffs.diff(ORG, sandbox.id, checkpoint.id) == later
        assert await process.diffs.diff(ORG, sandbox.id, None) == [added("/a", "1"), *later]


async def test_a_fork_is_compared_with_what_it_was_made_from(node: Node) -> None:
    async with node.process() as process:
        source = await process.create()
        node.machine_of(source).writable = {"a": "1"}
        checkpoint = await process.checkpoint(source)
        fork = (await process.forks.from_checkpoint(ORG, checkpoint.id, ForkRequest())).sandbox
        node.machine_of(fork).writable = {"b": "2"}
        assert await process.diffs.diff(ORG, fork.id, None) == [added("/b", "2")]


async def test_after_a_restore_it_is_compared_with_its_own_beginning(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.machine_of(sandbox).writable = {"a": "1"}
        checkpoint = await process.checkpoint(sandbox)
        node.machine_of(sandbox).writable = {"a": "1", "later": "x"}
        await process.restores.restore(ORG, sandbox.id, checkpoint.id)
        assert await process.diffs.diff(ORG, sandbox.id, checkpoint.id) == []
        assert await process.diffs.diff(ORG, sandbox.id, None) == [added("/a", "1")]


async def test_nothing_of_a_comparison_is_kept(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.machine_of(sandbox).writable = {"a": "1"}
        await process.diffs.diff(ORG, sandbox.id, None)
        assert process.artefacts.drafts == []
        assert process.artefacts.layer_ids == process.artefacts.memory_ids == frozenset()
        assert node.tables.snapshots == {}


async def test_others_are_not_excluded_while_it_is_compared(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        seen: list[bool] = []

        async def look() -> None:
            seen.append(process.transitions.busy(sandbox.id) or node.machine_of(sandbox).paused)

        process.artefacts.before = on("changes", look)
        await process.diffs.diff(ORG, sandbox.id, None)
        assert seen == [False]


async def test_while_something_else_is_in_progress_it_is_refused(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        other = process.transitions.exclusive(sandbox.id, "a checkpoint", closes=False)
        with other, pytest.raises(OperationInProgress):
            await process.diffs.diff(ORG, sandbox.id, None)


async def test_a_machine_that_cannot_be_saved_says_why_and_runs_on(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.host.before = on("save", SnapshotRefused("the disk is 96 % full"))
        with pytest.raises(SnapshotRefused, match="96 %"):
            await process.diffs.diff(ORG, sandbox.id, None)
        check_rest(node, process)


async def test_what_is_not_there_cannot_be_compared(node: Node) -> None:
    async with node.process() as process:
        sandbox, other = await process.create(), await process.create()
        checkpoint = await process.checkpoint(other)
        with pytest.raises(InvalidInput, match="another sandbox"):
            await process.diffs.diff(ORG, sandbox.id, checkpoint.id)
        with pytest.raises(NotFound):
            await process.diffs.diff(ORG, sandbox.id, SnapshotId("nothing"))
        with pytest.raises(NotFound):
            await process.diffs.diff(OTHER_ORG, sandbox.id, None)
        node.templates.templates = []
        with pytest.raises(ArtefactMissing):
            await process.diffs.diff(ORG, sandbox.id, None)
        await process.lifecycle.kill(ORG, sandbox.id)
        with pytest.raises(Gone):
            await process.diffs.diff(ORG, sandbox.id, None)
