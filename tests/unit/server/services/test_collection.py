"""What rows name stays; what nothing names goes, unless it may just not have been written down yet."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from opencomputer.server.domain.sandbox import SandboxState
from opencomputer.server.domain.snapshot import SnapshotKind
from tests.support import rows
from tests.unit.server.services.harness import BASE, ORG, Node, Process, on, settle
from tests.unit.server.services.steps import OPERATIONS, Operation, Steps, check_rest, check_use, stage_of

pytestmark = pytest.mark.anyio


async def collect(process: Process) -> None:
    """Sweep when nothing is recent any more."""
    process.artefacts.let_time_pass()
    await process.collection.sweep()


async def test_what_checkpoints_and_sandboxes_are_made_of_stays(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.machine_of(sandbox).writable = {"a": "1"}
        full = await process.checkpoint(sandbox)
        files = await process.checkpoint(sandbox, SnapshotKind.DISK_ONLY)
        node.machine_of(sandbox).writable = {"a": "2"}
        asleep = await process.asleep()
        await collect(process)
        wanted = {*full.origin.layers, *files.origin.layers, *asleep.layers}
        assert wanted <= process.artefacts.layer_ids
        assert len(process.artefacts.memory_ids) == 2


async def test_what_nothing_names_goes(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.machine_of(sandbox).writable = {"a": "1"}
        checkpoint = await process.checkpoint(sandbox)
        await process.checkpoints.delete(ORG, sandbox.id, checkpoint.id)
        await collect(process)
        assert process.artefacts.layer_ids == process.artefacts.memory_ids == frozenset()


async def test_what_a_woken_sandbox_slept_as_goes_but_for_its_files(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.asleep()
        await process.hibernation.wake(ORG, sandbox.id)
        await settle()
        await collect(process)
        assert process.artefacts.memory_ids == frozenset()
        assert process.artefacts.layer_ids == set(sandbox.layers)


async def test_what_is_about_to_be_named_is_not_taken_away(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        process.artefacts.before = on("discard_draft", process.collection.sweep)
        checkpoint = await process.checkpoint(sandbox)
        assert set(checkpoint.origin.layers) <= process.artefacts.layer_ids


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
async def test_a_sweep_at_any_step_of_an_operation_takes_nothing_of_it(
    operation: Operation, tmp_path: Path
) -> None:
    async with stage_of(operation, tmp_path) as stage:

        async def sweep(_step: str) -> None:
            await stage.process.collection.sweep()

        stage.process.artefacts.let_time_pass()
        steps = Steps(sweep).watch(stage)
        await operation.work(stage)
        await settle()
        steps.over = True
        check_rest(stage.node, stage.process)
        await check_use(stage.node, stage.process)


async def test_builds_of_templates_that_nothing_stands_on_go(node: Node) -> None:
    old = [
        replace(BASE, hash=name) for name in ("of a sandbox", "of one asleep", "of one stopped", "of none")
    ]
    node.templates.old = list(old)
    for state, build in zip(
        (SandboxState.RUNNING, SandboxState.HIBERNATED, SandboxState.STOPPED), old, strict=False
    ):
        row = rows.sandbox(ORG, state=state, template_hash=build.hash)
        node.tables.sandboxes[row.id] = row
    async with node.process() as process:
        await process.collection.sweep()
        assert [each.hash for each in node.templates.old] == ["of a sandbox", "of one asleep"]


async def test_builds_that_checkpoints_stand_on_stay(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        checkpoint = await process.checkpoint(sandbox)
        await process.lifecycle.kill(ORG, sandbox.id)
        await settle()
        node.templates.templates, node.templates.old = [replace(BASE, hash="h2")], [BASE]
        await process.collection.sweep()
        assert node.templates.old == [BASE]
        await process.checkpoints.delete(ORG, sandbox.id, checkpoint.id)
        await process.collection.sweep()
        assert node.templates.old == []


async def test_it_is_swept_again_and_again_whatever_goes_wrong(node: Node) -> None:
    async with node.process() as process:
        sweeps = 0

        async def fail() -> None:
            nonlocal sweeps
            sweeps += 1
            raise OSError("I/O error")

        process.artefacts.before = on("collect", fail)
        keeping = asyncio.create_task(process.collection.keep())
        await asyncio.sleep(1000)
        keeping.cancel()
        assert sweeps == 4
