"""Wake: once, however many ask; back to sleep when it fails; down the ladder when memory cannot be used."""

from __future__ import annotations

import asyncio

import pytest

from opencomputer.server.domain.errors import (
    ArtefactMissing,
    ConcurrencyLimit,
    Gone,
    NoCapacity,
    OpenComputerError,
    StartFailed,
)
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.services.sandboxes.checkpoints import NewCheckpoint
from tests.unit.server.services.harness import ORG, Node, Process, on, settle
from tests.unit.server.services.steps import check_rest

pytestmark = pytest.mark.anyio


async def call(process: Process, sandbox: Sandbox) -> object:
    """A data-plane call."""
    live = await process.reach.live(ORG, sandbox.id)
    return await live.machine.processes.list()


async def test_fifty_calls_at_once_wake_once_and_are_all_served(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.asleep()
        before, node.host.start_seconds = len(node.host.started), 1.0
        answers = await asyncio.gather(*(call(process, sandbox) for _ in range(50)))
        assert answers == [[]] * 50
        assert len(node.host.started) == before + 1
        check_rest(node, process)


async def test_calls_and_explicit_wakes_share_one_start(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.asleep()
        before, node.host.start_seconds = len(node.host.started), 1.0
        woken = await asyncio.gather(*(process.hibernation.wake(ORG, sandbox.id) for _ in range(5)))
        await call(process, sandbox)
        assert {each.state for each in woken} == {SandboxState.RUNNING}
        assert len(node.host.started) == before + 1


async def test_waking_what_runs_changes_nothing(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        assert await process.hibernation.wake(ORG, sandbox.id) == node.sandbox(sandbox)
        assert len(node.host.started) == 1


async def test_callers_that_go_away_do_not_stop_it(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.asleep()
        node.host.start_seconds = 1.0
        callers = [asyncio.create_task(call(process, sandbox)) for _ in range(3)]
        await asyncio.sleep(0.5)
        for caller in callers[:2]:
            caller.cancel()
        assert await callers[2] == []
        await asyncio.gather(*callers, return_exceptions=True)
        check_rest(node, process)


@pytest.mark.parametrize("step", ["start", "started", "identify"])
async def test_all_who_wait_are_told_when_it_fails_and_the_next_one_tries_again(
    node: Node, step: str
) -> None:
    async with node.process() as process:
        sandbox = await process.asleep()
        snapshots = dict(node.tables.snapshots)
        node.host.before = on(step, StartFailed())
        outcomes = await asyncio.gather(*(call(process, sandbox) for _ in range(10)), return_exceptions=True)
        assert {type(each) for each in outcomes} == {StartFailed}
        assert node.sandbox(sandbox) == sandbox
        assert node.tables.snapshots == snapshots
        check_rest(node, process)
        node.host.before = on("nothing", StartFailed())
        assert await call(process, sandbox) == []
        assert node.sandbox(sandbox).recovered is None


async def test_the_snapshot_is_there_until_the_machine_has_answered(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.asleep()
        seen: list[bool] = []

        async def look() -> None:
            row = node.sandbox(sandbox)
            seen.append(row.hibernation in node.tables.snapshots)

        node.host.before = on("identify", look)
        await process.hibernation.wake(ORG, sandbox.id)
        await settle()
        assert seen == [True]
        assert node.tables.snapshots == {}


async def test_it_goes_on_with_its_memory(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.asleep()
        woken = await process.hibernation.wake(ORG, sandbox.id)
        assert node.machine_of(sandbox).spec.memory_image is not None
        assert woken.recovered is None


MEMORY = ["damaged", "missing", "of another version", "not restorable"]


@pytest.mark.parametrize("memory", MEMORY)
async def test_memory_that_cannot_be_used_means_a_cold_start_that_can_be_seen(
    node: Node, memory: str
) -> None:
    """Step 2 of the recovery ladder: processes are lost, files and environment are not."""
    async with node.process() as process:
        sandbox = await process.asleep(environment={"A": "1"})
        (memory_id,) = process.artefacts.memory_ids
        if memory == "damaged":
            process.artefacts.damage(memory_id)
        elif memory == "missing":
            process.artefacts.lose(memory_id)
        elif memory == "of another version":
            node.host.image_version = "memory-2"
        else:
            node.host.before = on("start", StartFailed(), times=1)
        woken = await process.hibernation.wake(ORG, sandbox.id)
        assert (woken.state, woken.recovered) == (SandboxState.RUNNING, 2)
        machine = node.machine_of(sandbox)
        assert machine.spec.memory_image is None
        assert [path.name for path in machine.spec.layers] == ["base", *sandbox.layers]
        assert machine.identity is not None
        assert machine.identity.environment == {"A": "1"}
        assert machine.identity.boot_id is not None
        await process.hibernation.hibernate(ORG, sandbox.id)
        assert (await process.hibernation.wake(ORG, sandbox.id)).recovered is None


async def test_missing_files_are_an_error_and_it_sleeps_on(node: Node) -> None:
    """Never an older state instead, and never an empty one."""
    async with node.process() as process:
        sandbox = await process.asleep()
        process.artefacts.lose(sandbox.layers[0])
        with pytest.raises(ArtefactMissing):
            await process.hibernation.wake(ORG, sandbox.id)
        assert node.sandbox(sandbox) == sandbox
        check_row_at_rest(node)


def check_row_at_rest(node: Node) -> None:
    assert node.host.machines == node.tables.machines == {}


async def test_a_missing_snapshot_is_an_error_and_it_sleeps_on(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.asleep()
        node.tables.snapshots.clear()
        with pytest.raises(ArtefactMissing, match="sleeps as"):
            await process.hibernation.wake(ORG, sandbox.id)
        assert node.sandbox(sandbox).state is SandboxState.HIBERNATED


async def test_the_limit_of_running_sandboxes_counts(node: Node) -> None:
    node.concurrency_limit = 1
    async with node.process() as process:
        sandbox = await process.asleep()
        other = await process.create()
        with pytest.raises(ConcurrencyLimit):
            await process.hibernation.wake(ORG, sandbox.id)
        with pytest.raises(ConcurrencyLimit):
            await call(process, sandbox)
        assert node.sandbox(sandbox) == sandbox
        await process.lifecycle.kill(ORG, other.id)
        assert await call(process, sandbox) == []


async def test_a_full_host_is_told_and_it_sleeps_on(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.asleep()
        process.artefacts.before = on("memory", NoCapacity())
        with pytest.raises(NoCapacity):
            await call(process, sandbox)
        assert node.sandbox(sandbox) == sandbox


# Its timeout


async def test_it_keeps_its_timeout_and_the_period_begins_anew(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.asleep(timeout_seconds=60)
        await settle(1000)
        woken = await process.hibernation.wake(ORG, sandbox.id)
        assert woken.timeout_seconds == 60
        assert woken.due_at is not None
        assert (woken.due_at - process.clock.now()).total_seconds() == pytest.approx(60)


@pytest.mark.parametrize(("asked", "due"), [(600, 600), (0, None)])
async def test_unless_it_is_given_another(node: Node, asked: int, due: int | None) -> None:
    async with node.process() as process:
        sandbox = await process.asleep(timeout_seconds=60)
        woken = await process.hibernation.wake(ORG, sandbox.id, timeout_seconds=asked)
        assert woken.timeout_seconds == asked
        left = None if woken.due_at is None else (woken.due_at - process.clock.now()).total_seconds()
        assert left == (None if due is None else pytest.approx(due))


async def test_a_timeout_set_while_it_wakes_counts(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.asleep()
        node.host.before = on("started", lambda: process.lifecycle.set_timeout(ORG, sandbox.id, 60))
        assert (await process.hibernation.wake(ORG, sandbox.id)).due_at is not None


# Others


async def test_a_kill_while_it_wakes_wins(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.asleep()
        node.host.start_seconds = 1.0
        waking = asyncio.create_task(call(process, sandbox))
        await asyncio.sleep(0.5)
        await process.lifecycle.kill(ORG, sandbox.id)
        with pytest.raises(Gone):
            await waking
        await settle()
        assert node.tables.snapshots == {}
        check_rest(node, process)


async def test_a_request_while_it_falls_asleep_waits_and_wakes_it(node: Node) -> None:
    """It is never given the machine that is about to go."""
    async with node.process() as process:
        sandbox = await process.create()
        node.host.before = on("save", lambda: asyncio.sleep(5))
        sleeping = asyncio.create_task(process.hibernation.hibernate(ORG, sandbox.id))
        await asyncio.sleep(1)
        old = node.machine_of(sandbox)
        live = await process.reach.live(ORG, sandbox.id)
        await sleeping
        assert live.machine is not old
        assert node.sandbox(sandbox).state is SandboxState.RUNNING


async def test_a_request_while_it_fails_to_fall_asleep_is_served(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()

        async def refuse() -> None:
            await asyncio.sleep(5)
            raise OpenComputerError

        node.host.before = on("save", refuse)
        sleeping = asyncio.create_task(process.hibernation.hibernate(ORG, sandbox.id))
        await asyncio.sleep(1)
        assert await call(process, sandbox) == []
        await asyncio.gather(sleeping, return_exceptions=True)
        assert len(node.host.started) == 1


async def test_whoever_saves_one_that_was_just_woken_does_not_keep_calls_from_it(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.asleep()
        node.host.before = on("save", lambda: asyncio.sleep(5))

        async def save() -> None:
            await process.reach.live(ORG, sandbox.id)
            await process.checkpoints.create(ORG, sandbox.id, NewCheckpoint("one"))

        saving = asyncio.create_task(save())
        answers = await asyncio.gather(*(call(process, sandbox) for _ in range(20)))
        await saving
        assert answers == [[]] * 20
