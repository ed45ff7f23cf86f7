"""The sweep: what a running node tidies up every minute."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.contracts.stores import MachineState
from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.domain.sandbox import SandboxState
from tests.support import rows
from tests.unit.server.services.harness import (
    BASE,
    ORG,
    Node,
    exists,
    left,
    pool_of,
)

pytestmark = pytest.mark.anyio

SWEEP = 61.0


# The sweep


async def test_the_sweep_removes_strangers_and_finishes_stops(node: Node) -> None:
    async def stuck(step: str, _machine: MachineId) -> None:
        if step == "stop":
            raise OSError("device busy")

    async with node.process(recover=True) as process:
        sweep = asyncio.create_task(process.reconciler.keep())
        sandbox = await process.create()
        node.host.before = stuck
        await process.lifecycle.kill(ORG, sandbox.id)
        exists(node, rows.machine())
        await asyncio.sleep(SWEEP)
        sweep.cancel()
        assert node.host.machines == {}
        assert node.tables.machines == {}


async def test_the_sweep_leaves_alone_what_is_in_use_or_being_made_or_being_stopped(node: Node) -> None:
    node.host.start_seconds = 100.0

    discarded: list[MachineId] = []

    async def slow_stop(step: str, machine: MachineId) -> None:
        if step == "stop":
            await asyncio.sleep(100)
        if step == "discard":
            discarded.append(machine)

    async with node.process(recover=True) as process:
        sweep = asyncio.create_task(process.reconciler.keep())
        node.host.start_seconds = 0.0
        kept, killed = await process.create(), await process.create()
        node.host.before = slow_stop
        await process.lifecycle.kill(ORG, killed.id)
        node.host.start_seconds = 25.0
        await asyncio.sleep(SWEEP - 12)
        making = asyncio.create_task(process.create())
        await asyncio.sleep(20)
        assert (await making).state is SandboxState.RUNNING
        sweep.cancel()
        assert discarded == []
        assert await process.reach.live(ORG, kept.id)


@pytest.mark.parametrize("fault", [OpenComputerError("no"), OSError("no such device"), ValueError("a bug")])
async def test_a_sweep_that_fails_is_tried_again(node: Node, fault: Exception) -> None:
    broken = True

    async def fail(step: str, _machine: MachineId) -> None:
        if step == "survey" and broken:
            raise fault

    async with node.process(recover=True) as process:
        node.host.before = fail
        sweep = asyncio.create_task(process.reconciler.keep())
        exists(node, rows.machine())
        await asyncio.sleep(SWEEP)
        broken = False
        await asyncio.sleep(SWEEP)
        assert not sweep.done()
        sweep.cancel()
        assert node.host.machines == {}


async def test_one_stop_that_fails_again_does_not_keep_others_from_being_finished(node: Node) -> None:
    async with node.process(recover=True) as process:
        stuck_row, _ = left(node, MachineState.STOPPING, None)
        other, _ = left(node, MachineState.STOPPING, None)

        async def stuck(step: str, machine: MachineId) -> None:
            if step == "discard" and machine == stuck_row.id:
                raise OSError("device busy")

        node.host.before = stuck
        sweep = asyncio.create_task(process.reconciler.keep())
        await asyncio.sleep(SWEEP)
        sweep.cancel()
        assert list(node.tables.machines) == [stuck_row.id]
        assert other.id not in node.host.machines


async def test_the_sweep_stocks_a_template_that_was_built_meanwhile(node: Node) -> None:
    node.policy = pool_of(1)
    async with node.process(recover=True) as process:
        sweep = asyncio.create_task(process.reconciler.keep())
        node.templates.templates = [replace(BASE, hash="h2", layers=(Path("/layers/h2"),))]
        await asyncio.sleep(SWEEP + 5)
        sweep.cancel()
        assert [row.template_hash for row in node.tables.machines.values()] == ["h2"]
        assert len(node.host.machines) == 1
