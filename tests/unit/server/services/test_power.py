"""Reboot and power-cycle: the same files and identity, new programs; or everything as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from opencomputer.server.domain.errors import (
    Gone,
    GuestFault,
    HostDiskFull,
    InvalidInput,
    NotFound,
    OpenComputerError,
    StartFailed,
)
from opencomputer.server.domain.sandbox import SandboxShape, SandboxState
from opencomputer.server.services.sandboxes.live import Ending
from opencomputer.wire.ids import OrgId, SandboxId
from tests.unit.server.services.harness import BASE, ORG, OTHER_ORG, Node, Process, on, settle
from tests.unit.server.services.steps import check_rest

pytestmark = pytest.mark.anyio

Restart = Callable[[Process, OrgId, SandboxId], Awaitable[None]]


async def reboot(process: Process, org_id: OrgId, sandbox_id: SandboxId) -> None:
    await process.power.reboot(org_id, sandbox_id)


async def power_cycle(process: Process, org_id: OrgId, sandbox_id: SandboxId) -> None:
    await process.power.power_cycle(org_id, sandbox_id)


@pytest.fixture(params=[reboot, power_cycle])
def restart(request: pytest.FixtureRequest) -> Restart:
    return request.param


async def test_files_written_just_before_are_there_and_memory_is_not(node: Node, restart: Restart) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        old = node.machine_of(sandbox)
        old.writable["file"] = "just written"
        await restart(process, ORG, sandbox.id)
        await settle()
        machine, (layer,) = node.machine_of(sandbox), node.sandbox(sandbox).layers
        assert machine is not old
        assert machine.spec.memory_image is None
        assert machine.spec.layers == (*BASE.layers, process.artefacts.folder / "layers" / layer)
        assert (process.artefacts.folder / "layers" / layer / "file").read_text() == "just written"
        check_rest(node, process)


async def test_size_environment_timeout_and_names_stay(node: Node, restart: Restart) -> None:
    async with node.process() as process:
        sandbox = await process.create(
            shape=SandboxShape(8192, 2, 20480), timeout_seconds=600, alias="mine", environment={"A": "1"}
        )
        await restart(process, ORG, sandbox.id)
        await settle()
        row, machine = node.sandbox(sandbox), node.machine_of(sandbox)
        assert (row.shape, row.timeout_seconds, row.alias) == (sandbox.shape, 600, "mine")
        assert machine.limits.memory_bytes == 8192 << 20
        assert machine.identity is not None
        assert machine.identity.environment == {"A": "1"}
        assert row.generation == sandbox.generation


async def test_sockets_are_told(node: Node, restart: Restart) -> None:
    async with node.process() as process:
        live = await process.live_one()
        await restart(process, ORG, live.id)
        assert live.ended.is_set()
        assert live.ending is Ending.REBOOTED


async def test_the_old_machine_stands_still_until_the_new_one_answers(node: Node, restart: Restart) -> None:
    """What it wrote after it was saved would be lost."""
    async with node.process() as process:
        sandbox = await process.create()
        old = node.machine_of(sandbox)
        seen: list[bool] = []

        async def look() -> None:
            seen.append(old.paused and not old.lost)

        node.host.before = on("started", look)
        await restart(process, ORG, sandbox.id)
        assert seen == [True]


@pytest.mark.parametrize("fault", [StartFailed(), GuestFault()])
@pytest.mark.parametrize("step", ["start", "started", "identify"])
async def test_when_the_new_machine_does_not_answer_the_old_one_goes_on(
    node: Node, restart: Restart, step: str, fault: OpenComputerError
) -> None:
    async with node.process() as process:
        live = await process.live_one()
        before = node.sandbox(live.sandbox)
        node.host.before = on(step, fault)
        with pytest.raises(StartFailed):
            await restart(process, ORG, live.id)
        assert node.sandbox(live.sandbox) == before
        assert await process.reach.live(ORG, live.id) is live
        check_rest(node, process)


@pytest.mark.parametrize("step", ["new_draft", "keep_layer", "kept", "layer"])
async def test_when_its_files_cannot_be_kept_the_old_machine_goes_on(
    node: Node, restart: Restart, step: str
) -> None:
    async with node.process() as process:
        live = await process.live_one()
        process.artefacts.before = on(step, HostDiskFull())
        with pytest.raises(HostDiskFull):
            await restart(process, ORG, live.id)
        assert await process.reach.live(ORG, live.id) is live
        check_rest(node, process)


async def test_calls_wait_and_get_the_new_machine(node: Node, restart: Restart) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        node.host.start_seconds = 2.0
        restarting = asyncio.ensure_future(restart(process, ORG, sandbox.id))
        await asyncio.sleep(1)
        began = process.clock.monotonic()
        live = await process.reach.live(ORG, sandbox.id)
        assert process.clock.monotonic() == pytest.approx(began + 1)
        await restarting
        assert live.machine.id == node.sandbox(sandbox).machine_id


async def test_it_is_for_running_sandboxes(node: Node, restart: Restart) -> None:
    async with node.process() as process:
        sandbox = await process.asleep()
        with pytest.raises(InvalidInput, match="not running"):
            await restart(process, ORG, sandbox.id)
        with pytest.raises(NotFound):
            await restart(process, OTHER_ORG, sandbox.id)
        await process.lifecycle.kill(ORG, sandbox.id)
        with pytest.raises(Gone):
            await restart(process, ORG, sandbox.id)


async def test_nothing_new_is_kept_below_a_machine_that_wrote_nothing(node: Node, restart: Restart) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        for _ in range(3):
            await restart(process, ORG, sandbox.id)
        await settle()
        assert len(process.artefacts.layer_ids) == 1
        assert node.sandbox(sandbox).state is SandboxState.RUNNING
        check_rest(node, process)
