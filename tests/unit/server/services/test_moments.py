"""Moments so short that only a test which makes them finds them."""

from __future__ import annotations

import asyncio

import pytest

from opencomputer.server.domain.errors import StartFailed
from opencomputer.server.domain.sandbox import SandboxState, StopReason
from tests.unit.server.services.harness import ORG, Node, on, settle
from tests.unit.server.services.steps import check_rest

pytestmark = pytest.mark.anyio


async def test_a_machine_that_two_let_go_counts_once(node: Node) -> None:
    """A kill and the operation that it ended, for example."""
    async with node.process() as process:
        live = await process.live_one()
        await asyncio.gather(*(process.provisioning.stop(live.machine) for _ in range(2)))
        await process.provisioning.stop(live.machine)
        assert process.provisioning.count == 0


async def test_a_wake_that_finds_something_else_begun_looks_again(node: Node) -> None:
    """What begins while it reads the row is not refused to those who just use the sandbox."""
    async with node.process() as process:
        sandbox = await process.asleep()

        async def exclude() -> None:
            with process.transitions.exclusive(sandbox.id, "something", closes=False):
                await asyncio.sleep(5)

        async def begin() -> None:
            process.background.start(exclude(), name="something")
            await asyncio.sleep(0)

        node.tables.before = on("sandboxes.get", begin, times=1)
        began = process.clock.monotonic()
        assert (await process.hibernation.wake(ORG, sandbox.id)).state is SandboxState.RUNNING
        assert process.clock.monotonic() == pytest.approx(began + 5)


async def test_a_crash_just_before_a_restore_begins_is_recorded_when_that_has_failed(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        checkpoint = await process.checkpoint(sandbox)
        restoring: list[asyncio.Task[None]] = []

        async def begin() -> None:
            # The watcher reads the row just now, and nothing was in progress when it began to.
            if not restoring:
                work = process.restores.restore(ORG, sandbox.id, checkpoint.id)
                restoring.append(asyncio.create_task(work))
                await asyncio.sleep(0.1)

        async def fail() -> None:
            await asyncio.sleep(1)
            raise StartFailed

        node.host.before = on("start", fail)
        node.tables.before = on("sandboxes.get", begin, times=1)
        node.machine_of(sandbox).die()
        await settle(5)
        with pytest.raises(StartFailed):
            await restoring[0]
        assert node.sandbox(sandbox).stop_reason is StopReason.CRASH
        check_rest(node, process)
