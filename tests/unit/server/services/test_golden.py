"""Golden images: made once per template and build, used by all, none better than a broken one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from opencomputer.server.contracts.driver import Capabilities, MachineId
from opencomputer.server.contracts.machine import ProcessKind
from opencomputer.server.domain.errors import SnapshotRefused, StartFailed
from tests.support.memory.machines import MemoryHost
from tests.unit.server.services.harness import BASE, LIMITS, Node

pytestmark = pytest.mark.anyio

SNAPSHOTS = Capabilities(memory_snapshots=True, setuid=True, saves_deleted_files=True)


@pytest.fixture
def golden_node(node: Node) -> Node:
    node.host = MemoryHost(SNAPSHOTS)
    return node


async def test_machines_start_from_an_image_of_a_machine_that_was_warmed_up(golden_node: Node) -> None:
    async with golden_node.process() as process:
        warmed: list[str] = []

        async def look(step: str, machine: MachineId) -> None:
            if step == "save":
                processes = golden_node.host.machines[machine].processes.by_id.values()
                warmed.extend(each.spec.argv[0] for each in processes if each.spec.kind is ProcessKind.RUN)

        golden_node.host.before = look
        machine = await process.pool.claim(BASE)
        first, second = golden_node.host.started
        assert first.memory_image is None
        assert first.layers == BASE.layers
        assert second.memory_image is not None
        assert second.id == machine.id
        assert second.memory_image.is_dir()
        image = await process.golden.get(BASE, LIMITS)
        assert image is not None
        assert second.layers == (*BASE.layers, image.layer_folder)
        assert golden_node.tables.machines[machine.id].layers == (image.layer,)
        assert {"bash", "python3", "node"} <= set(warmed)
        assert list(golden_node.host.machines) == [machine.id]


async def test_the_guest_in_an_image_accepts_the_token_that_is_kept_with_it(golden_node: Node) -> None:
    async with golden_node.process() as process:
        await process.pool.claim(BASE)
        image = await process.golden.get(BASE, LIMITS)
        assert image is not None
        first, second = golden_node.host.started
        assert first.token == second.token == image.guest_token


async def test_one_image_is_made_however_many_ask(golden_node: Node) -> None:
    golden_node.host.start_seconds = 1.0
    golden_node.parallel_starts = 4
    async with golden_node.process() as process:
        images = await asyncio.gather(*(process.golden.get(BASE, LIMITS) for _ in range(5)))
        assert len({image.memory for image in images if image}) == 1
        assert len(golden_node.host.started) == 1


async def test_an_image_is_found_again_after_a_restart(golden_node: Node) -> None:
    async with golden_node.process() as process:
        made = await process.golden.get(BASE, LIMITS)
    async with golden_node.process(recover=True) as process:
        assert await process.golden.get(BASE, LIMITS) == made
        assert len(golden_node.host.started) == 1


@pytest.mark.parametrize("change", ["template", "image_version"])
async def test_another_template_or_build_needs_another_image(golden_node: Node, change: str) -> None:
    async with golden_node.process() as process:
        made = await process.golden.get(BASE, LIMITS)
        template = BASE
        if change == "template":
            template = replace(BASE, hash="h2")
        else:
            golden_node.host.image_version = "memory-2"
        assert await process.golden.get(template, LIMITS) != made


async def test_images_that_nothing_can_use_are_deleted(golden_node: Node) -> None:
    async with golden_node.process() as process:
        old = await process.golden.get(BASE, LIMITS)
    golden_node.templates.templates = [replace(BASE, hash="h2")]
    async with golden_node.process(recover=True):
        assert old is not None
        assert not old.memory.exists()


async def test_an_image_being_made_is_not_taken_for_an_old_one(golden_node: Node) -> None:
    saving, go_on = asyncio.Event(), asyncio.Event()

    async def wait(step: str, _machine: MachineId) -> None:
        if step == "save":
            saving.set()
            await go_on.wait()

    golden_node.host.before = wait
    async with golden_node.process() as process:
        making = asyncio.create_task(process.golden.get(BASE, LIMITS))
        await saving.wait()
        await process.golden.remove_stale([BASE])
        go_on.set()
        assert await making is not None


async def test_each_memory_size_has_an_image_of_its_own(golden_node: Node) -> None:
    async with golden_node.process() as process:
        usual = await process.golden.get(BASE, LIMITS)
        small = await process.golden.get(BASE, replace(LIMITS, memory_bytes=1 << 30))
        assert usual != small
        await process.golden.remove_stale([BASE])
        assert await process.golden.get(BASE, LIMITS) == usual


@pytest.mark.parametrize("step", ["save", "start"])
async def test_a_template_that_cannot_be_saved_starts_cold(golden_node: Node, step: str) -> None:
    failing = True

    async def refuse(current: str, _machine: MachineId) -> None:
        if current == step and failing:
            raise SnapshotRefused("an open file") if step == "save" else StartFailed

    golden_node.host.before = refuse
    async with golden_node.process() as process:
        if step == "start":
            with pytest.raises(StartFailed):
                await process.pool.claim(BASE)
            failing = False
        machine = await process.pool.claim(BASE)
        assert list(golden_node.host.machines) == [machine.id]
        last = golden_node.host.started[-1]
        assert (last.memory_image is None) == (step == "save")


async def test_a_driver_without_snapshots_starts_cold_and_nothing_is_tried(node: Node) -> None:
    async with node.process() as process:
        await process.pool.claim(BASE)
        assert [spec.memory_image for spec in node.host.started] == [None]


@pytest.mark.parametrize("step", ["start", "started", "save"])
async def test_a_server_that_stops_while_it_makes_an_image_leaves_nothing(
    golden_node: Node, step: str
) -> None:
    reached = asyncio.Event()

    async def hang(current: str, _machine: MachineId) -> None:
        if current == step:
            reached.set()
            await asyncio.Event().wait()

    golden_node.host.before = hang
    async with golden_node.process() as process:
        claim = asyncio.create_task(process.pool.claim(BASE))
        await reached.wait()
        claim.cancel()
        await asyncio.gather(claim, return_exceptions=True)
    assert golden_node.host.machines == {}
    assert golden_node.tables.machines == {}
    async with golden_node.process(recover=True) as process:
        golden_node.host.before = MemoryHost().before
        assert await process.golden.get(BASE, LIMITS) is not None


async def test_an_image_that_is_damaged_is_made_anew(golden_node: Node) -> None:
    async with golden_node.process() as process:
        made = await process.golden.get(BASE, LIMITS)
        assert made is not None
        (made.memory.parent / "golden.json").write_text("{")
        assert await process.golden.get(BASE, LIMITS) is not None
        assert len(golden_node.host.started) == 2
