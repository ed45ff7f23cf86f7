"""What pool members have behind them before they are claimed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.domain.errors import GuestFault
from tests.support import rows
from tests.unit.server.services.harness import BASE, LIMITS, ORG, Node, new_sandbox, pool_of

pytestmark = pytest.mark.anyio


async def settle() -> None:
    """Let what is under way come to rest, in virtual time."""
    await asyncio.sleep(1.0)


async def test_a_member_has_been_identified_and_has_run_a_command(node: Node) -> None:
    """With its own token: the row of a member is what an adoption goes by."""
    node.policy = pool_of(1)
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle()
        (machine,) = node.host.machines.values()
        assert machine.identity is not None
        assert machine.identity.sandbox_id == ""
        assert machine.token == node.tables.machines[machine.id].guest_token
        assert [record.argv[0] for record in await machine.processes.list()] == ["/bin/sh"]


async def test_one_who_waits_does_not_wait_for_a_rehearsal(node: Node) -> None:
    """Nothing comes between a start and the claim it was made for, and it starts at full weight."""
    async with node.process() as process:
        machine = await process.pool.claim(BASE)
        (spec,) = node.host.started
        assert spec.limits == LIMITS
        assert node.host.machines[machine.id].identity is None


async def test_a_member_that_fails_its_rehearsal_is_removed(node: Node) -> None:
    """It would fail its first user as well."""

    async def refuse(step: str, _machine: MachineId) -> None:
        if step == "identify":
            raise GuestFault

    node.policy = pool_of(1)
    node.host.before = refuse
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle()
        assert process.pool.sizes() == {"base": 0}
        assert node.host.machines == {}
        assert node.tables.machines == {}


async def test_a_member_in_its_rehearsal_is_ended_with_the_pool(node: Node) -> None:
    """A stop in the middle leaves nothing behind."""

    async def wait(step: str, _machine: MachineId) -> None:
        if step == "identify":
            await asyncio.Event().wait()

    node.policy = pool_of(1)
    node.host.before = wait
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle()
        assert len(node.host.machines) == 1
    assert node.host.machines == {}


async def test_a_claimed_member_gets_the_limits_of_its_sandbox(node: Node) -> None:
    """Its weight with them, before anything is asked of it."""
    node.policy = pool_of(1)
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle()
        sandbox = (await process.lifecycle.create(ORG, new_sandbox(shape=rows.SHAPE))).sandbox
        assert node.machine_of(sandbox).limits == LIMITS


async def test_a_sandbox_with_another_disk_is_not_given_a_member(node: Node) -> None:
    """A member's disk has the usual size for good."""
    node.policy = pool_of(1)
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle()
        shape = replace(rows.SHAPE, disk_mb=2 * rows.SHAPE.disk_mb)
        sandbox = (await process.lifecycle.create(ORG, new_sandbox(shape=shape))).sandbox
        assert node.machine_of(sandbox).spec.limits.disk_bytes == shape.disk_mb << 20
