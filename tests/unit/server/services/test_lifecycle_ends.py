"""The end of a sandbox: killed once and for good, or recorded when its machine ends by itself."""

from __future__ import annotations

import asyncio

import pytest

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.contracts.stores import MachineState
from opencomputer.server.domain.errors import (
    Gone,
    NotFound,
)
from opencomputer.server.domain.sandbox import SandboxState, StopReason
from opencomputer.server.services.sandboxes.live import Ending
from opencomputer.wire.ids import SandboxId
from tests.unit.server.services.harness import ORG, OTHER_ORG, Node

pytestmark = pytest.mark.anyio

ALL_STATES = list(SandboxState)


# Kill


async def test_a_kill_ends_everything(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()
        await process.lifecycle.kill(ORG, live.id)
        assert live.ended.is_set()
        assert live.ending is Ending.STOPPED
        stopped = await process.lifecycle.get(ORG, live.id)
        assert (stopped.state, stopped.stop_reason) == (SandboxState.STOPPED, StopReason.USER_REQUESTED)
        with pytest.raises(Gone):
            await process.reach.live(ORG, live.id)
        await asyncio.sleep(0.1)
        assert node.host.machines == {}
        assert node.tables.machines == {}


async def test_a_kill_answers_before_the_machine_is_gone(node: Node) -> None:
    async def slow(step: str, _machine: MachineId) -> None:
        if step == "stop":
            await asyncio.sleep(9)

    node.host.before = slow
    async with node.process() as process:
        live = await process.live_one()
        began = process.clock.monotonic()
        await process.lifecycle.kill(ORG, live.id)
        assert process.clock.monotonic() == began
        assert [row.state for row in node.tables.machines.values()] == [MachineState.STOPPING]
        assert len(node.host.machines) == 1
    assert node.host.machines == {}


async def test_killing_again_is_not_an_error(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        await asyncio.gather(*(process.lifecycle.kill(ORG, sandbox.id) for _ in range(5)))
        await process.lifecycle.kill(ORG, sandbox.id)
        assert node.sandbox(sandbox).state is SandboxState.STOPPED


async def test_an_unknown_sandbox_cannot_be_killed(node: Node) -> None:
    async with node.process() as process:
        with pytest.raises(NotFound):
            await process.lifecycle.kill(ORG, SandboxId("sb-00000000"))


async def test_a_stop_that_fails_is_left_to_the_reconciler(node: Node) -> None:
    async def stuck(step: str, _machine: MachineId) -> None:
        if step == "stop":
            raise OSError("device busy")

    node.host.before = stuck
    async with node.process() as process:
        sandbox = await process.create()
        await process.lifecycle.kill(ORG, sandbox.id)
        await asyncio.sleep(1)
        assert [row.state for row in node.tables.machines.values()] == [MachineState.STOPPING]
        assert node.sandbox(sandbox).state is SandboxState.STOPPED


async def test_another_organisation_can_do_nothing_with_a_sandbox(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        lifecycle = process.lifecycle
        for call in (lifecycle.get, process.reach.live, lifecycle.kill):
            with pytest.raises(NotFound):
                await call(OTHER_ORG, sandbox.id)
        with pytest.raises(NotFound):
            await lifecycle.set_timeout(OTHER_ORG, sandbox.id, 5)
        assert list(await lifecycle.list(OTHER_ORG, ALL_STATES, limit=10, after=None)) == []
        with pytest.raises(NotFound):
            await lifecycle.list(OTHER_ORG, ALL_STATES, limit=10, after=sandbox.id)
        assert node.sandbox(sandbox) == sandbox


# The machine ends by itself


async def test_a_machine_that_ends_by_itself_stops_its_sandbox(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()
        node.machine_of(live.sandbox).die()
        await asyncio.sleep(0.1)
        row = node.sandbox(live.sandbox)
        assert (row.state, row.stop_reason) == (SandboxState.STOPPED, StopReason.CRASH)
        assert live.ended.is_set()
        assert node.host.machines == {}
        assert node.tables.machines == {}


async def test_a_kill_and_a_crash_at_once_stop_it_once(node: Node) -> None:
    stops: list[MachineId] = []

    async def count(step: str, machine: MachineId) -> None:
        if step == "stop":
            stops.append(machine)

    node.host.before = count
    async with node.process() as process:
        sandbox = await process.create()
        node.machine_of(sandbox).die()
        await process.lifecycle.kill(ORG, sandbox.id)
        await asyncio.sleep(1)
        assert node.sandbox(sandbox).state is SandboxState.STOPPED
        assert len(stops) == 1
