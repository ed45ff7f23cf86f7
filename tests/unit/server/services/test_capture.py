"""Saving a machine durably: into a draft that never stays, onto a stack of layers that never gets tall."""

from __future__ import annotations

import pytest

from opencomputer.server.domain.errors import HostDiskFull, MachineLost, SnapshotRefused
from opencomputer.server.domain.layers import LayerId
from opencomputer.server.services.sandboxes.capture import LONGEST_STACK, Captured, let_go_on, reason_of
from opencomputer.server.services.sandboxes.live import LiveSandbox
from tests.support.memory.machines import MemoryMachine
from tests.unit.server.services.harness import ORG, Node, Process, on

pytestmark = pytest.mark.anyio


def machine_of(live: LiveSandbox) -> MemoryMachine:
    assert isinstance(live.machine, MemoryMachine)
    return live.machine


async def capture(process: Process, live: LiveSandbox, below: tuple[LayerId, ...] = ()) -> Captured:
    async with process.captures.saving(live.machine, below, memory=True) as saving:
        return await saving.keep(memory=True)


async def test_what_is_saved_stands_on_what_the_machine_stands_on(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()
        machine_of(live).writable["file"] = "text"
        below = (await capture(process, live)).layers
        machine_of(live).writable["file"] = "later"
        captured = await capture(process, live, below)
        assert captured.layers[:-1] == below
        assert set(captured.layers) <= process.artefacts.layer_ids
        assert captured.memory is not None
        assert captured.memory.id in process.artefacts.memory_ids


async def test_its_size_is_what_the_store_holds(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()
        machine_of(live).writable["file"] = "x" * 1000
        captured = await capture(process, live)
        assert captured.size_bytes == 1000 + len("1")


async def test_memory_is_kept_with_the_version_and_the_secret_that_open_it(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()
        captured = await capture(process, live)
        assert captured.memory is not None
        assert captured.memory.image_version == node.host.image_version
        assert captured.memory.guest_token == machine_of(live).token


async def test_a_stack_that_gets_too_tall_becomes_one_layer(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()
        machine, layers = machine_of(live), tuple[LayerId, ...]()
        for number in range(LONGEST_STACK):
            machine.writable = {f"file-{number}": str(number)}
            layers = (await capture(process, live, layers)).layers
            assert len(layers) == number + 1
        machine.writable = {"file-0": "new"}
        (merged,) = (await capture(process, live, layers)).layers
        folder = process.artefacts.folder / "layers" / merged
        assert {path.name: path.read_text() for path in folder.iterdir()} == {
            "file-0": "new",
            **{f"file-{number}": str(number) for number in range(1, LONGEST_STACK)},
        }


@pytest.mark.parametrize("fault", [SnapshotRefused("a socket is open"), HostDiskFull(), OSError("full")])
@pytest.mark.parametrize("step", ["save", "saved"])
async def test_a_machine_that_cannot_be_saved_goes_on_and_leaves_no_draft(
    node: Node, step: str, fault: Exception
) -> None:
    async with node.process() as process:
        live = await process.live_one()
        node.host.before = on(step, fault)
        with pytest.raises(type(fault)):
            await capture(process, live)
        assert not machine_of(live).paused
        assert process.artefacts.drafts == []


@pytest.mark.parametrize("step", ["keep_layer", "keep_memory", "kept"])
async def test_what_cannot_be_kept_leaves_no_draft(node: Node, step: str) -> None:
    async with node.process() as process:
        live = await process.live_one()
        process.artefacts.before = on(step, HostDiskFull())
        with pytest.raises(HostDiskFull):
            await capture(process, live)
        assert process.artefacts.drafts == []


async def test_a_draft_that_cannot_be_removed_does_not_undo_what_was_saved(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()
        process.artefacts.before = on("discard_draft", OSError("device busy"))
        assert (await capture(process, live)).layers


async def test_a_machine_that_was_stopped_is_lost_and_no_bug(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()
        await process.provisioning.stop(live.machine)
        with pytest.raises(MachineLost):
            await capture(process, live)


async def test_letting_go_on_never_fails(node: Node) -> None:
    """It is what is done when something else has failed already."""
    async with node.process() as process:
        live = await process.live_one()
        for fault in (MachineLost(), OSError("no answer")):
            node.host.before = on("go_on", fault)
            await let_go_on(live.machine)
        node.host.before = on("nothing", OSError())
        machine_of(live).paused = True
        await let_go_on(live.machine)
        assert not machine_of(live).paused


def test_users_are_told_what_they_may_know() -> None:
    assert reason_of(SnapshotRefused("a socket is open")) == "a socket is open"
    assert "/var/lib" not in reason_of(OSError("/var/lib/opencomputer is full"))


async def test_layers_of_a_long_life_stay_few(node: Node) -> None:
    """Each sleep adds a layer: however often, the stack stays one that machines start quickly on."""
    async with node.process() as process:
        sandbox = await process.create()
        for number in range(3 * LONGEST_STACK):
            node.machine_of(sandbox).writable = {f"file-{number % 5}": str(number)}
            await process.hibernation.hibernate(ORG, sandbox.id)
            await process.hibernation.wake(ORG, sandbox.id)
            assert len(node.sandbox(sandbox).layers) <= LONGEST_STACK
