"""Machines in which a program runs before anybody asks: taken once, made anew, left to nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from opencomputer.server.contracts.machine import Machine
from opencomputer.server.domain.errors import MachineLost, NoCapacity, OpenComputerError, StartFailed
from opencomputer.server.domain.sandbox import SandboxState
from opencomputer.server.services.sandboxes.lifecycle import Source
from opencomputer.server.services.sandboxes.warm import WarmMachines
from tests.unit.server.services.harness import BASE, ORG, Node, Process, new_sandbox, on, settle

pytestmark = pytest.mark.anyio

HOUR = 3600.0


class Preparing:
    """Counts what was prepared, and fails where it is told to."""

    def __init__(self) -> None:
        self.machines: list[Machine] = []
        self.failure: OpenComputerError | None = None

    async def __call__(self, machine: Machine) -> None:
        if self.failure is not None:
            raise self.failure
        self.machines.append(machine)


@pytest.fixture
def preparing() -> Preparing:
    return Preparing()


@asynccontextmanager
async def kept(node: Node, process: Process) -> AsyncGenerator[WarmMachines]:
    warm = WarmMachines(process.pool, process.provisioning, node.templates, process.clock)
    keeping = asyncio.create_task(warm.keep())
    await settle(0)
    try:
        yield warm
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def test_one_is_ready_after_it_was_asked_for_and_another_after_it_was_taken(
    node: Node, preparing: Preparing
) -> None:
    async with node.process() as process, kept(node, process) as warm:
        warm.expect("brain", "base", preparing)
        assert warm.take("brain") is None
        await settle()
        first = warm.take("brain")
        assert first is not None
        assert warm.take("brain") is None
        await settle()
        second = warm.take("brain")
        assert second is not None
        assert preparing.machines[:2] == [first, second]
        assert warm.take("another") is None
        for machine in (first, second):
            warm.discard(machine)


async def test_it_becomes_a_sandbox_as_a_machine_of_the_pool_does(node: Node, preparing: Preparing) -> None:
    async with node.process() as process, kept(node, process) as warm:
        warm.expect("brain", "base", preparing)
        await settle()
        machine = warm.take("brain")
        request = new_sandbox(network_enabled=False)
        source = Source(process.lifecycle.origin(request.template, request.shape), machine=machine)
        sandbox = (await process.lifecycle.create(ORG, request, source)).sandbox
        assert machine is not None
        assert sandbox.machine_id == machine.id
        assert sandbox.state is SandboxState.RUNNING
        identity = node.machine_of(sandbox).identity
        assert identity is not None
        assert identity.environment["GREETING"] == "hello"


async def test_a_create_that_fails_ends_it(node: Node, preparing: Preparing) -> None:
    async with node.process() as process, kept(node, process) as warm:
        warm.expect("brain", "base", preparing)
        await settle()
        machine = warm.take("brain")
        assert machine is not None
        node.host.before = on("identify", MachineLost())
        request = new_sandbox()
        source = Source(process.lifecycle.origin(request.template, request.shape), machine=machine)
        with pytest.raises(OpenComputerError):
            await process.lifecycle.create(ORG, request, source)
        assert machine.id not in node.tables.machines


@pytest.mark.parametrize("failure", [StartFailed(), NoCapacity()])
async def test_one_that_cannot_be_prepared_is_gone_and_is_tried_again_later(
    node: Node, preparing: Preparing, failure: OpenComputerError
) -> None:
    preparing.failure = failure
    async with node.process() as process, kept(node, process) as warm:
        warm.expect("brain", "base", preparing)
        await settle()
        started = len(node.host.started)
        warm.expect("brain", "base", preparing)
        await settle()
        assert len(node.host.started) == started
        assert node.host.machines == {}
        preparing.failure = None
        await settle(130)
        assert warm.take("brain") is not None


async def test_what_nobody_wants_for_an_hour_is_let_go(node: Node, preparing: Preparing) -> None:
    async with node.process() as process, kept(node, process) as warm:
        warm.expect("brain", "base", preparing)
        await settle(HOUR - 60)
        assert len(node.host.machines) == 1
        await settle(300)
        assert node.host.machines == {}
        assert warm.take("brain") is None


async def test_one_that_has_ended_meanwhile_is_not_given_out(node: Node, preparing: Preparing) -> None:
    async with node.process() as process, kept(node, process) as warm:
        warm.expect("brain", "base", preparing)
        await settle()
        node.host.machines[preparing.machines[0].id].die()
        assert warm.take("brain") is None
        await settle()
        assert warm.take("brain") is not None


async def test_a_node_that_stops_ends_them(node: Node, preparing: Preparing) -> None:
    async with node.process() as process, kept(node, process) as warm:
        warm.expect("brain", "base", preparing)
        await settle()
        assert len(node.host.machines) == 1
    assert node.host.machines == {}


async def test_what_a_killed_node_leaves_is_removed_and_never_a_member_of_the_pool(
    node: Node, preparing: Preparing
) -> None:
    async with node.process() as process:
        warm = WarmMachines(process.pool, process.provisioning, node.templates, process.clock)
        warm.expect("brain", "base", preparing)
        await settle()
        assert len(node.host.machines) == 1
    async with node.process(recover=True) as process:
        await settle()
        assert node.host.machines == {}
        assert process.pool.sizes().get(BASE.name, 0) == 0
