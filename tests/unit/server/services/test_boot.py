"""Machines of sandboxes: from what was saved, cold where memory cannot be used, and none on failure."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.domain.errors import (
    ArtefactDamaged,
    ArtefactMissing,
    GuestFault,
    HostDiskFull,
    MachineLost,
    NoCapacity,
    OpenComputerError,
    StartFailed,
)
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.domain.snapshot import Snapshot
from opencomputer.server.services.sandboxes.boot import Booted
from tests.support.memory.machines import MemoryMachine
from tests.unit.server.services.harness import BASE, ORG, Node, Process, on

pytestmark = pytest.mark.anyio


async def saved(process: Process) -> tuple[Sandbox, Snapshot]:
    """A row that may be given a machine, and what it is to be made from."""
    sandbox = await process.create()
    checkpoint = await process.checkpoint(sandbox)
    row = replace(sandbox, layers=checkpoint.origin.layers)
    return row, checkpoint


async def boot(process: Process, row: Sandbox, checkpoint: Snapshot, *, copied: bool = False) -> Booted:
    return await process.boot.saved(row, checkpoint.origin.layers, checkpoint.memory, copied=copied)


def machine_of(booted: Booted) -> MemoryMachine:
    assert isinstance(booted.machine, MemoryMachine)
    return booted.machine


async def test_a_machine_goes_on_from_the_memory_and_the_layers_that_were_saved(node: Node) -> None:
    async with node.process() as process:
        row, checkpoint = await saved(process)
        assert checkpoint.memory is not None
        booted = await boot(process, row, checkpoint)
        spec = machine_of(booted).spec
        assert booted.memory_restored
        assert spec.memory_image == process.artefacts.folder / "memories" / checkpoint.memory.id
        assert [path.name for path in spec.layers] == ["base", *checkpoint.origin.layers]
        assert spec.token == checkpoint.memory.guest_token


@pytest.mark.parametrize("way", ["fresh", "saved", "cold"])
async def test_a_machine_is_closed_before_it_is_told_whose_it_is(node: Node, way: str) -> None:
    """What goes on inside then must not find the network of the pool."""
    seen: list[EgressMode] = []

    async def look(step: str, machine: MachineId) -> None:
        if step == "identify":
            seen.append(node.host.machines[machine].egress)

    async with node.process() as process:
        row, checkpoint = await saved(process)
        row = replace(row, network_enabled=False)
        node.host.before = look
        if way == "fresh":
            await process.boot.fresh(row, BASE)
        else:
            memory = checkpoint.memory if way == "saved" else None
            await process.boot.saved(row, checkpoint.origin.layers, memory, copied=True)
    assert seen == [EgressMode.CLOSED]


MEMORY_FAULTS = [ArtefactDamaged(), ArtefactMissing(), StartFailed()]


@pytest.mark.parametrize("fault", [*MEMORY_FAULTS, GuestFault("no answer"), MachineLost()])
async def test_memory_that_cannot_be_used_means_a_cold_start_on_the_same_files(
    node: Node, fault: OpenComputerError
) -> None:
    """Whether the store notices it, the runtime, or the guest that does not answer."""
    async with node.process() as process:
        row, checkpoint = await saved(process)
        if isinstance(fault, ArtefactDamaged | ArtefactMissing):
            process.artefacts.before = on("memory", fault)
        else:
            node.host.before = on("started", fault, times=1)
        booted = await boot(process, row, checkpoint)
        spec = machine_of(booted).spec
        assert not booted.memory_restored
        assert spec.memory_image is None
        assert [path.name for path in spec.layers] == ["base", *checkpoint.origin.layers]


async def test_memory_of_another_version_is_not_even_tried(node: Node) -> None:
    async with node.process() as process:
        row, checkpoint = await saved(process)
        before = len(node.host.started)
        node.host.image_version = "memory-2"
        assert not (await boot(process, row, checkpoint)).memory_restored
        assert [spec.memory_image for spec in node.host.started[before:]] == [None]


async def test_where_that_very_memory_is_asked_for_there_is_no_cold_start(node: Node) -> None:
    async with node.process() as process:
        row, checkpoint = await saved(process)
        assert checkpoint.memory is not None
        process.artefacts.damage(checkpoint.memory.id)
        before = len(node.host.started)
        with pytest.raises(ArtefactDamaged):
            await process.boot.restored(row, row.layers, checkpoint.memory, copied=False)
        assert len(node.host.started) == before


@pytest.mark.parametrize("fault", [HostDiskFull(), NoCapacity()])
async def test_a_full_host_is_no_reason_to_forget_the_memory(node: Node, fault: OpenComputerError) -> None:
    async with node.process() as process:
        row, checkpoint = await saved(process)
        node.host.before = on("start", fault)
        with pytest.raises(type(fault)):
            await boot(process, row, checkpoint)


async def test_missing_files_fail_loudly(node: Node) -> None:
    """Never an empty sandbox."""
    async with node.process() as process:
        row, checkpoint = await saved(process)
        process.artefacts.lose(checkpoint.origin.layers[0])
        with pytest.raises(ArtefactMissing):
            await boot(process, row, checkpoint)


async def test_files_need_the_very_build_of_the_template_they_were_saved_above(node: Node) -> None:
    async with node.process() as process:
        row, checkpoint = await saved(process)
        node.templates.templates = [replace(BASE, hash="h2")]
        with pytest.raises(ArtefactMissing, match="the build of template 'base'"):
            await boot(process, row, checkpoint)
        node.templates.old = [BASE]
        assert (await boot(process, row, checkpoint)).memory_restored


@pytest.mark.parametrize("step", ["start", "started", "identify"])
@pytest.mark.parametrize("fault", [StartFailed(), GuestFault(), OSError("no such device")])
async def test_a_start_that_fails_leaves_no_machine(node: Node, step: str, fault: Exception) -> None:
    async with node.process() as process:
        row, checkpoint = await saved(process)
        node.host.before = on(step, fault)
        with pytest.raises((StartFailed, OSError)):
            await boot(process, row, checkpoint)
        assert len(node.host.machines) == len(node.tables.machines) == 1
        assert node.sandbox(row).machine_id in node.host.machines


async def test_a_start_that_is_cancelled_leaves_no_machine(node: Node) -> None:
    async with node.process() as process:
        row, checkpoint = await saved(process)
        node.host.before = on("identify", lambda: asyncio.sleep(60))
        booting = asyncio.create_task(boot(process, row, checkpoint))
        await asyncio.sleep(1)
        booting.cancel()
        await asyncio.gather(booting, return_exceptions=True)
        assert len(node.host.machines) == len(node.tables.machines) == 1


async def test_the_sandbox_keeps_its_machine_until_the_new_one_knows_who_it_is(node: Node) -> None:
    async with node.process() as process:
        row, checkpoint = await saved(process)
        seen: list[str | None] = []

        async def look() -> None:
            seen.append(node.sandbox(row).machine_id)

        node.host.before = on("identify", look)
        booted = await boot(process, row, checkpoint)
        assert seen == [row.machine_id]
        assert node.sandbox(row).machine_id == booted.machine.id


async def test_what_is_true_of_a_machine_is_written_with_it(node: Node) -> None:
    async with node.process() as process:
        row, checkpoint = await saved(process)
        target = replace(row, shape=replace(row.shape, memory_mb=8192), generation=7, patch_position=5)
        booted = await boot(process, target, checkpoint)
        found = node.sandbox(row)
        assert (found.machine_id, found.layers, found.shape) == (
            booted.machine.id,
            checkpoint.origin.layers,
            target.shape,
        )
        assert (found.generation, found.patch_position) == (7, 5)


async def test_a_machine_of_a_sandbox_that_was_killed_meanwhile_is_let_go(node: Node) -> None:
    async with node.process() as process:
        row, checkpoint = await saved(process)
        node.host.before = on("identify", lambda: process.lifecycle.kill(ORG, row.id), times=1)
        with pytest.raises(OpenComputerError):
            await boot(process, row, checkpoint)
        await asyncio.sleep(1)
        assert node.host.machines == {}
        assert node.sandbox(row).state is SandboxState.STOPPED


# Who the machine is


async def test_a_sandbox_is_the_same_machine_to_its_programs_through_everything(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        first = node.machine_of(sandbox).identity
        await process.power.reboot(ORG, sandbox.id)
        await asyncio.sleep(1)
        rebooted = node.machine_of(sandbox).identity
        await process.hibernation.hibernate(ORG, sandbox.id)
        await process.hibernation.wake(ORG, sandbox.id)
        await asyncio.sleep(1)
        woken = node.machine_of(sandbox).identity
        assert first is not None
        assert rebooted is not None
        assert woken is not None
        assert first.machine_id == rebooted.machine_id == woken.machine_id
        assert first.boot_id != rebooted.boot_id
        assert woken.boot_id is None
        assert not woken.copied


async def test_a_copy_is_another_machine_to_its_programs(node: Node) -> None:
    async with node.process() as process:
        row, checkpoint = await saved(process)
        other = await process.create()
        booted = await boot(
            process, replace(row, id=other.id, environment={"A": "2"}), checkpoint, copied=True
        )
        copy, source = machine_of(booted).identity, node.machine_of(row).identity
        assert copy is not None
        assert source is not None
        assert copy.copied
        assert copy.sandbox_id == copy.hostname == other.id
        assert copy.machine_id != source.machine_id
        assert copy.boot_id not in (None, source.boot_id)
        assert copy.entropy != source.entropy
        assert copy.token not in (source.token, checkpoint.memory and checkpoint.memory.guest_token)
        assert copy.environment == {"A": "2"}


async def test_every_start_waits_for_its_place(node: Node) -> None:
    """A restore is no smaller burden than a create."""
    node.parallel_starts = 2
    async with node.process() as process:
        row, checkpoint = await saved(process)
        node.host.start_seconds = 1.0
        await asyncio.gather(*(boot(process, row, checkpoint) for _ in range(6)))
        assert node.host.most_at_once == 2
