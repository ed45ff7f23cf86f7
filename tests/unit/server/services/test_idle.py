"""Idle timeouts: a rolling period, any use counts, and what cannot sleep is never destroyed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from opencomputer.server.contracts.stores import MachineState
from opencomputer.server.domain.errors import GuestFault, OpenComputerError, SnapshotRefused
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.services.sandboxes.checkpoints import NewCheckpoint
from tests.unit.server.services.harness import ORG, Node, Process, left, on
from tests.unit.server.services.steps import check_rest

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def idling(node: Node, *, recover: bool = False) -> AsyncGenerator[Process]:
    """A process that looks for sandboxes which nobody uses."""
    async with node.process(recover=recover) as process:
        keeping = asyncio.create_task(process.idle.keep())
        try:
            yield process
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


async def use(process: Process, sandbox: Sandbox, seconds: float = 0.0) -> None:
    """A request that takes so long."""
    live = await process.reach.live(ORG, sandbox.id)
    with live.activity.request():
        await asyncio.sleep(seconds)


def due_in(node: Node, process: Process, sandbox: Sandbox) -> float | None:
    due_at = node.sandbox(sandbox).due_at
    return None if due_at is None else (due_at - process.clock.now()).total_seconds()


def is_asleep(node: Node, sandbox: Sandbox) -> bool:
    return node.sandbox(sandbox).state is SandboxState.HIBERNATED


# What keeps a sandbox awake


@pytest.mark.parametrize(("timeout", "silence"), [(30, 40), (10, 15), (300, 310)])
async def test_one_that_nobody_uses_sleeps_and_the_next_command_wakes_it(
    node: Node, timeout: int, silence: int
) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=timeout)
        await asyncio.sleep(timeout - 1)
        assert not is_asleep(node, sandbox)
        await asyncio.sleep(silence - timeout + 1)
        assert is_asleep(node, sandbox)
        await use(process, sandbox)
        assert node.sandbox(sandbox).state is SandboxState.RUNNING
        check_rest(node, process)


async def test_a_poke_now_and_then_keeps_it_awake(node: Node) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=60)
        for _ in range(20):
            await asyncio.sleep(45)
            await use(process, sandbox)
        assert len(node.host.started) == 1
        await asyncio.sleep(70)
        assert is_asleep(node, sandbox)


async def test_a_call_that_fails_counts_too(node: Node) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=60)
        for _ in range(4):
            await asyncio.sleep(45)
            live = await process.reach.live(ORG, sandbox.id)
            with pytest.raises(OpenComputerError), live.activity.request():
                await live.machine.processes.get("nothing")
        assert len(node.host.started) == 1


async def test_a_long_silent_request_counts_until_it_ends(node: Node) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=60)
        await use(process, sandbox, seconds=3600)
        assert not is_asleep(node, sandbox)
        await asyncio.sleep(55)
        assert not is_asleep(node, sandbox)
        await asyncio.sleep(10)
        assert is_asleep(node, sandbox)


async def test_of_several_requests_the_last_counts(node: Node) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=60)
        long = asyncio.create_task(use(process, sandbox, seconds=600))
        await use(process, sandbox, seconds=5)
        await asyncio.sleep(300)
        assert not is_asleep(node, sandbox)
        await long


async def test_messages_on_sockets_count_and_open_silent_ones_do_not(node: Node) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=60)
        live = await process.reach.live(ORG, sandbox.id)
        for _ in range(5):
            await asyncio.sleep(45)
            live.activity.touch()
        assert not is_asleep(node, sandbox)
        await asyncio.sleep(70)
        assert is_asleep(node, sandbox)


async def test_looking_at_a_sandbox_does_not_keep_it_awake(node: Node) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=60)
        for _ in range(10):
            await asyncio.sleep(10)
            await process.lifecycle.get(ORG, sandbox.id)
            await process.checkpoints.list(ORG, sandbox.id)
        assert is_asleep(node, sandbox)


async def test_a_busy_sandbox_costs_one_write_per_period(node: Node) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=60)
        writes = 0

        async def count() -> None:
            nonlocal writes
            writes += 1

        node.tables.before = on("sandboxes.update", count)
        for _ in range(600):
            await use(process, sandbox)
            await asyncio.sleep(1)
        assert writes <= 11


# The period


async def test_zero_is_never(node: Node) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=0)
        await asyncio.sleep(6 * 3600)
        assert not is_asleep(node, sandbox)


async def test_zero_set_after_a_short_one_stays(node: Node) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=10)
        await asyncio.sleep(5)
        await process.lifecycle.set_timeout(ORG, sandbox.id, 0)
        await asyncio.sleep(3600)
        assert not is_asleep(node, sandbox)


async def test_a_longer_one_keeps_it_past_the_old_deadline(node: Node) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=30)
        await asyncio.sleep(20)
        await process.lifecycle.set_timeout(ORG, sandbox.id, 600)
        await asyncio.sleep(595)
        assert not is_asleep(node, sandbox)
        await asyncio.sleep(10)
        assert is_asleep(node, sandbox)


async def test_setting_one_begins_the_period_anew_although_it_was_not_used(node: Node) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=0)
        await asyncio.sleep(1000)
        await process.lifecycle.set_timeout(ORG, sandbox.id, 60)
        await asyncio.sleep(55)
        assert not is_asleep(node, sandbox)
        await asyncio.sleep(10)
        assert is_asleep(node, sandbox)


async def test_the_period_begins_when_the_sandbox_is_usable(node: Node) -> None:
    async with idling(node) as process:
        node.host.start_seconds = 20.0
        sandbox = await process.create(timeout_seconds=30)
        await asyncio.sleep(25)
        assert not is_asleep(node, sandbox)


# Races


async def test_a_request_just_before_the_deadline_is_served_by_the_same_machine(node: Node) -> None:
    async with idling(node) as process:
        for early in range(0, 30, 3):
            sandbox = await process.create(timeout_seconds=10)
            machine = node.machine_of(sandbox)
            await asyncio.sleep(9 + early / 10)
            live = await process.reach.live(ORG, sandbox.id)
            with live.activity.request():
                await asyncio.sleep(30)
                assert not node.machine_of(sandbox).lost
                assert await live.machine.processes.list() == []
            if live.machine is machine:
                assert not machine.paused


async def test_a_request_between_the_decision_and_the_act_is_served(node: Node) -> None:
    """Looked at again when nobody new can begin: one that began just before has its way."""
    async with node.process() as process:
        sandbox = await process.create(timeout_seconds=10)
        live = await process.reach.live(ORG, sandbox.id)
        await asyncio.sleep(20)

        async def use_it() -> None:
            live.activity.touch()

        node.tables.before = on("sandboxes.get", use_it)
        await process.idle.look()
        await asyncio.sleep(1)
        assert node.sandbox(sandbox).state is SandboxState.RUNNING
        assert len(node.tables.snapshots) == 0
        await process.idle.look()
        await asyncio.sleep(1)
        assert due_in(node, process, sandbox) == pytest.approx(9, abs=1.5)


async def test_a_request_after_the_decision_waits_and_wakes_it(node: Node) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=10)
        node.host.before = on("save", lambda: asyncio.sleep(5))
        await asyncio.sleep(12)
        assert node.sandbox(sandbox).state is SandboxState.HIBERNATING
        await use(process, sandbox)
        assert len(node.host.started) == 2


async def test_a_timeout_set_between_the_decision_and_the_act_counts(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create(timeout_seconds=10)
        await asyncio.sleep(20)
        node.tables.before = on(
            "sandboxes.get", lambda: process.lifecycle.set_timeout(ORG, sandbox.id, 15), times=1
        )
        await process.idle.look()
        await asyncio.sleep(1)
        assert node.sandbox(sandbox).state is SandboxState.RUNNING


async def test_something_else_that_is_in_progress_is_not_disturbed(node: Node) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=10)
        node.host.before = on("save", lambda: asyncio.sleep(60), times=1)
        await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("one"))
        await asyncio.sleep(50)
        assert not is_asleep(node, sandbox)
        assert node.sandbox(sandbox).last_hibernate_error is None
        await asyncio.sleep(30)
        assert is_asleep(node, sandbox)


# When it cannot be done


async def attempts(node: Node, process: Process, sandbox: Sandbox, fault: Exception) -> list[datetime]:
    made: list[datetime] = []

    async def refuse() -> None:
        made.append(process.clock.now())
        raise fault

    node.host.before = on("save", refuse)
    return made


FAULTS = [SnapshotRefused("a socket is open"), GuestFault("no answer"), OSError("I/O error")]


@pytest.mark.parametrize("fault", FAULTS)
async def test_it_is_tried_again_later_and_later(node: Node, fault: Exception) -> None:
    """After 1, 2, 4, 8 and then every 15 minutes; it runs on, and says why it does not sleep."""
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=10)
        made = await attempts(node, process, sandbox, fault)
        await asyncio.sleep(3 * 3600)
        pauses = [(later - earlier) / timedelta(minutes=1) for earlier, later in pairwise(made)]
        assert pauses[:6] == [pytest.approx(minutes, abs=0.1) for minutes in (1, 2, 4, 8, 15, 15)]
        row = node.sandbox(sandbox)
        assert row.state is SandboxState.RUNNING
        assert row.last_hibernate_error == getattr(fault, "message", "the server failed; see its log")
        assert await process.reach.live(ORG, sandbox.id)
        check_rest(node, process)


async def test_when_it_was_used_meanwhile_it_begins_with_a_minute_again(node: Node) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=10)
        made = await attempts(node, process, sandbox, SnapshotRefused())
        await asyncio.sleep(20 * 60)
        await use(process, sandbox)
        del made[:]
        await asyncio.sleep(20 * 60)
        assert (made[1] - made[0]).total_seconds() == pytest.approx(60, abs=2)


async def test_it_sleeps_as_soon_as_it_can(node: Node) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=10)
        await attempts(node, process, sandbox, SnapshotRefused("no"))
        await asyncio.sleep(60)
        node.host.before = on("nothing", SnapshotRefused())
        await asyncio.sleep(60)
        row = node.sandbox(sandbox)
        assert row.state is SandboxState.HIBERNATED
        assert (row.last_hibernate_error, row.hibernate_failures) == (None, 0)


async def test_one_that_cannot_sleep_does_not_keep_others_awake(node: Node) -> None:
    async with idling(node) as process:
        stuck = [await process.create(timeout_seconds=10) for _ in range(6)]
        stuck_machines = {node.machine_of(each).id for each in stuck}

        async def hang(step: str, machine: object) -> None:
            if step == "save" and machine in stuck_machines:
                raise SnapshotRefused

        node.host.before = hang
        other = await process.create(timeout_seconds=10)
        await asyncio.sleep(15)
        assert is_asleep(node, other)


# Restarts


async def test_a_restart_keeps_the_deadline(node: Node) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=600)
        await asyncio.sleep(300)
        await use(process, sandbox)
        await asyncio.sleep(200)
        due_at = process.clock.now() + timedelta(seconds=400)
    assert node.sandbox(sandbox).due_at == due_at
    async with idling(node, recover=True) as process:
        await asyncio.sleep(395)
        assert not is_asleep(node, sandbox)
        await asyncio.sleep(10)
        assert is_asleep(node, sandbox)


async def test_use_after_a_restart_counts(node: Node) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=60)
    async with idling(node, recover=True) as process:
        await asyncio.sleep(30)
        await use(process, sandbox)
        await asyncio.sleep(50)
        assert not is_asleep(node, sandbox)
        await asyncio.sleep(20)
        assert is_asleep(node, sandbox)


async def test_one_that_is_due_but_not_served_yet_is_left_alone(node: Node) -> None:
    row, sandbox = left(node, MachineState.CLAIMED, SandboxState.RUNNING)
    assert sandbox is not None
    async with idling(node) as process:
        await process.sandboxes.update(sandbox.id, {"due_at": process.clock.now(), "timeout_seconds": 10})
        before = node.sandbox(sandbox)
        await asyncio.sleep(30)
        assert node.sandbox(sandbox) == before
        assert row.id in node.host.machines
        await process.reconciler.recover(await process.reconciler.look())
        await asyncio.sleep(5)
        assert is_asleep(node, sandbox)


async def test_a_store_that_fails_once_does_not_end_the_looking(node: Node) -> None:
    async with idling(node) as process:
        sandbox = await process.create(timeout_seconds=10)
        node.tables.before = on("sandboxes.due", OSError("I/O error"), times=15)
        await asyncio.sleep(20)
        assert is_asleep(node, sandbox)
