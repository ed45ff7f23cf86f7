"""The life of a sandbox: created whole or not at all, killed once and for good."""

from __future__ import annotations

import asyncio

import pytest

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.contracts.stores import MachineState
from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import (
    ConcurrencyLimit,
    Gone,
    IdempotencyMismatch,
    MachineLost,
    NoCapacity,
    NotFound,
    NotReady,
    StartFailed,
)
from opencomputer.server.domain.sandbox import Sandbox, SandboxShape, SandboxState
from opencomputer.server.services.sandboxes.boot import machine_limits
from opencomputer.server.services.sandboxes.live import Ending
from opencomputer.wire.ids import SandboxId
from tests.unit.server.services.harness import ORG, OTHER_ORG, Node, Process, new_sandbox, pool_of

pytestmark = pytest.mark.anyio

ALL_STATES = list(SandboxState)


def nothing_is_left(node: Node, process: Process) -> bool:
    """No machine, no machine row, nothing served, nothing visible."""
    visible = [row for row in node.tables.sandboxes.values() if row.visible]
    return not node.host.machines and not node.tables.machines and not len(process.live) and not visible


async def test_a_created_sandbox_runs_at_once(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create(metadata={"k": "v"}, timeout_seconds=60)
        assert sandbox.state is SandboxState.RUNNING
        assert sandbox == node.sandbox(sandbox)
        assert (sandbox.metadata, sandbox.timeout_seconds, sandbox.template) == ({"k": "v"}, 60, "base")
        live = await process.reach.live(ORG, sandbox.id)
        assert live.machine.id == sandbox.machine_id


async def test_each_sandbox_gets_an_identity_of_its_own(node: Node) -> None:
    async with node.process() as process:
        made = [await process.create(environment={"N": str(number)}) for number in range(3)]
        identities = [node.machine_of(sandbox).identity for sandbox in made]
        for sandbox, identity in zip(made, identities, strict=True):
            assert identity is not None
            assert identity.hostname == sandbox.id
            assert identity.environment == sandbox.environment
            assert len(identity.entropy) >= 32
        for name in ("machine_id", "token", "entropy", "sandbox_id"):
            assert len({getattr(identity, name) for identity in identities}) == 3, name


async def test_the_token_a_machine_accepts_is_the_one_that_is_stored(node: Node) -> None:
    """Else no later process could take the machine over."""
    async with node.process() as process:
        sandbox = await process.create()
        machine = node.machine_of(sandbox)
        row = node.tables.machines[machine.id]
        assert (row.state, row.guest_token, row.sandbox_id) == (
            MachineState.CLAIMED,
            machine.token,
            sandbox.id,
        )


async def test_the_new_token_is_stored_before_the_machine_gets_it(node: Node) -> None:
    """A crash between the two must leave a machine that can still be recognised or removed."""
    tokens: list[bool] = []

    async def look(step: str, machine_id: MachineId) -> None:
        if step == "identify":
            tokens.append(node.tables.machines[machine_id].state is MachineState.CLAIMED)

    node.host.before = look
    async with node.process() as process:
        await process.create()
    assert tokens == [True]


async def test_another_size_than_the_pools_is_in_effect_on_return(node: Node) -> None:
    large = SandboxShape(16384, 4, 20480)
    async with node.process() as process:
        plain, big = await process.create(), await process.create(shape=large)
        assert node.machine_of(big).limits == machine_limits(large)
        assert node.machine_of(plain).limits == machine_limits(plain.shape)


@pytest.mark.parametrize("name", ["", "default", "ubuntu", "base"])
async def test_the_base_template_has_aliases(node: Node, name: str) -> None:
    async with node.process() as process:
        assert (await process.create(template=name)).template == "base"


@pytest.mark.parametrize("name", ["nope", "Base", "../base", "base/h1"])
async def test_an_unknown_template_is_not_found_and_leaves_nothing(node: Node, name: str) -> None:
    async with node.process() as process:
        with pytest.raises(NotFound):
            await process.create(template=name)
        assert node.tables.sandboxes == {}


STEPS = ["start", "started", "identify", "set_limits"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", [StartFailed("injected"), ValueError("a bug of ours")])
async def test_a_fault_at_any_step_of_a_create_leaves_nothing(
    node: Node, step: str, error: Exception
) -> None:
    async def fail(current: str, _machine: MachineId) -> None:
        if current == step:
            raise error

    node.host.before = fail
    async with node.process() as process:
        with pytest.raises((StartFailed, ValueError)):
            await process.create(shape=SandboxShape(1024, 1, 20480))
        assert nothing_is_left(node, process)


def dies_at(node: Node, step: str, times: int) -> None:
    """Machines end at this step, so many of them."""
    left = iter(range(times))

    async def die(current: str, machine_id: MachineId) -> None:
        if current == step and next(left, None) is not None:
            node.host.machines[machine_id].die()
            raise MachineLost

    node.host.before = die


@pytest.mark.parametrize("step", ["identify", "set_limits"])
async def test_a_machine_that_ends_just_when_it_is_claimed_is_replaced(node: Node, step: str) -> None:
    """One that was ready may be gone before anybody has noticed; its claimer need not know."""
    dies_at(node, step, 1)
    async with node.process() as process:
        sandbox = await process.create()
        live = await process.reach.live(ORG, sandbox.id)
        assert not live.machine.lost
        assert node.sandbox(sandbox).machine_id == live.machine.id
        assert list(node.host.machines) == [live.machine.id] == list(node.tables.machines)


async def test_a_create_whose_machines_all_end_fails_as_a_create_and_leaves_nothing(node: Node) -> None:
    """Not as a sandbox that is gone: there never was one."""
    dies_at(node, "identify", 100)
    async with node.process() as process:
        with pytest.raises(StartFailed):
            await process.create()
        assert nothing_is_left(node, process)
        assert len(node.host.started) < 5


@pytest.mark.parametrize("step", STEPS)
async def test_a_create_given_up_at_any_step_leaves_nothing(node: Node, step: str) -> None:
    reached = asyncio.Event()

    async def hang(current: str, _machine: MachineId) -> None:
        if current == step:
            reached.set()
            await asyncio.Event().wait()

    node.host.before = hang
    async with node.process() as process:
        create = asyncio.create_task(process.create(shape=SandboxShape(1024, 1, 20480)))
        await reached.wait()
        create.cancel()
        with pytest.raises(asyncio.CancelledError):
            await create
        assert [row.state for row in node.tables.sandboxes.values()] == [SandboxState.FAILED]
    assert node.host.machines == {}
    assert node.tables.machines == {}


@pytest.mark.parametrize("step", STEPS)
async def test_a_server_that_stops_at_any_step_of_a_create_leaves_nothing(node: Node, step: str) -> None:
    reached = asyncio.Event()

    async def hang(current: str, _machine: MachineId) -> None:
        if current == step:
            reached.set()
            await asyncio.Event().wait()

    node.host.before = hang
    async with node.process() as process:
        create = asyncio.create_task(process.create(shape=SandboxShape(1024, 1, 20480)))
        await reached.wait()
        create.cancel()
        await asyncio.gather(create, return_exceptions=True)
    assert node.host.machines == {}
    assert node.tables.machines == {}


async def test_a_failed_create_is_in_no_list_and_has_no_name(node: Node) -> None:
    async def fail(step: str, _machine: MachineId) -> None:
        if step == "identify":
            raise StartFailed

    node.host.before = fail
    async with node.process() as process:
        with pytest.raises(StartFailed):
            await process.create()
        (row,) = node.tables.sandboxes.values()
        with pytest.raises(NotFound):
            await process.lifecycle.get(ORG, row.id)
        with pytest.raises(NotFound):
            await process.reach.live(ORG, row.id)


async def test_a_create_beyond_capacity_waits_and_then_leaves_nothing(node: Node) -> None:
    node.host.start_seconds = 10_000.0
    async with node.process() as process:
        with pytest.raises(NoCapacity):
            await process.create()
        assert len(process.live) == 0
    assert node.tables.machines == {}


async def test_a_sandbox_being_created_is_hidden(node: Node) -> None:
    node.host.start_seconds = 1.0
    async with node.process() as process:
        create = asyncio.create_task(process.create())
        await asyncio.sleep(0.5)
        (row,) = node.tables.sandboxes.values()
        for call in (process.lifecycle.get, process.reach.live, process.lifecycle.kill):
            with pytest.raises(NotFound):
                await call(ORG, row.id)
        assert (await create).state is SandboxState.RUNNING


async def test_an_id_that_is_taken_already_is_drawn_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight hex digits are few: among many thousand sandboxes two will meet."""
    ids = iter([SandboxId("sb-00000001"), SandboxId("sb-00000001"), SandboxId("sb-00000002")])
    monkeypatch.setattr(naming, "new_sandbox_id", lambda: next(ids))
    async with node.process() as process:
        assert [(await process.create()).id for _ in range(2)] == ["sb-00000001", "sb-00000002"]


async def test_the_concurrency_limit_frees_up_with_a_kill(node: Node) -> None:
    node.concurrency_limit = 2
    async with node.process() as process:
        first = await process.create()
        await process.create()
        with pytest.raises(ConcurrencyLimit):
            await process.create()
        await process.lifecycle.kill(ORG, first.id)
        await process.create()


async def test_a_failed_create_frees_its_place_at_once(node: Node) -> None:
    node.concurrency_limit = 1

    async def fail(step: str, _machine: MachineId) -> None:
        if step == "identify":
            raise StartFailed

    node.host.before = fail
    async with node.process() as process:
        for _ in range(3):
            with pytest.raises(StartFailed):
                await process.create()


# Idempotency


async def test_the_same_key_gives_the_same_sandbox(node: Node) -> None:
    async with node.process() as process:
        first = await process.create(idempotency_key="k")
        assert await process.create(idempotency_key="k") == first
        assert (await process.create(idempotency_key="l")).id != first.id
        assert len(node.host.machines) == 2


async def test_the_same_key_with_another_request_is_refused(node: Node) -> None:
    async with node.process() as process:
        await process.create(idempotency_key="k", request_hash="one")
        with pytest.raises(IdempotencyMismatch):
            await process.create(idempotency_key="k", request_hash="two")


async def test_keys_of_two_organisations_have_nothing_to_do_with_each_other(node: Node) -> None:
    async with node.process() as process:
        first = (await process.lifecycle.create(ORG, new_sandbox(idempotency_key="k"))).sandbox
        second = (await process.lifecycle.create(OTHER_ORG, new_sandbox(idempotency_key="k"))).sandbox
        assert first.id != second.id


@pytest.mark.parametrize("apart", [0.0, 0.3])
async def test_creates_with_one_key_at_once_make_one_sandbox(node: Node, apart: float) -> None:
    node.host.start_seconds = 1.0
    async with node.process() as process:

        async def create(number: int) -> Sandbox:
            await asyncio.sleep(number * apart)
            return await process.create(idempotency_key="k")

        made = await asyncio.gather(*(create(number) for number in range(5)))
        assert len({sandbox.id for sandbox in made}) == 1
        assert {sandbox.state for sandbox in made} == {SandboxState.RUNNING}
        assert len(node.host.machines) == 1


async def test_one_who_waits_for_a_create_that_fails_creates_it_himself(node: Node) -> None:
    node.host.start_seconds = 1.0
    failures = iter([True])

    async def fail_once(step: str, _machine: MachineId) -> None:
        if step == "identify" and next(failures, False):
            raise StartFailed

    node.host.before = fail_once
    async with node.process() as process:
        first = asyncio.create_task(process.create(idempotency_key="k"))
        await asyncio.sleep(0.1)
        others = [asyncio.create_task(process.create(idempotency_key="k")) for _ in range(3)]
        with pytest.raises(StartFailed):
            await first
        made = await asyncio.gather(*others)
        assert {sandbox.state for sandbox in made} == {SandboxState.RUNNING}
        assert len({sandbox.id for sandbox in made}) == 1
        assert len(node.host.machines) == 1


# Timeouts, lists, the server's own stop


async def test_a_timeout_is_set_on_what_runs_only(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        await process.lifecycle.set_timeout(ORG, sandbox.id, 90)
        assert node.sandbox(sandbox).timeout_seconds == 90
        await process.lifecycle.kill(ORG, sandbox.id)
        with pytest.raises(Gone):
            await process.lifecycle.set_timeout(ORG, sandbox.id, 5)
        assert node.sandbox(sandbox).timeout_seconds == 90


async def test_a_page_ends_after_the_sandbox_it_names(node: Node) -> None:
    async with node.process() as process:
        made: list[SandboxId] = []
        for _ in range(5):
            made.append((await process.create()).id)
            await asyncio.sleep(1)
        newest_first = made[::-1]
        listed = process.lifecycle.list
        first = await listed(ORG, [SandboxState.RUNNING], limit=2, after=None)
        second = await listed(ORG, [SandboxState.RUNNING], limit=2, after=first[-1].id)
        third = await listed(ORG, [SandboxState.RUNNING], limit=2, after=second[-1].id)
        assert [row.id for page in (first, second, third) for row in page] == newest_first


async def test_a_page_may_end_at_a_sandbox_that_was_killed_meanwhile(node: Node) -> None:
    async with node.process() as process:
        older = await process.create()
        await asyncio.sleep(1)
        newer = await process.create()
        await process.lifecycle.kill(ORG, newer.id)
        page = await process.lifecycle.list(ORG, [SandboxState.RUNNING], limit=5, after=newer.id)
        assert [row.id for row in page] == [older.id]


async def test_a_server_that_stops_lets_go_of_its_sandboxes_without_ending_them(node: Node) -> None:
    async with node.process() as process:
        live = await process.live_one()
    assert live.ended.is_set()
    assert live.ending is Ending.HANDED_ON
    assert node.sandbox(live.sandbox).state is SandboxState.RUNNING
    assert [machine.detached for machine in node.host.machines.values()] == [True]


async def test_a_running_sandbox_that_is_not_served_yet_is_not_ready(node: Node) -> None:
    async with node.process() as process:
        sandbox = await process.create()
        process.live.remove(sandbox.id)
        with pytest.raises(NotReady):
            await process.reach.live(ORG, sandbox.id)


async def test_creates_from_a_pool_leave_as_many_machines_as_sandboxes(node: Node) -> None:
    node.policy = pool_of(4)
    async with node.process() as process:
        made = await asyncio.gather(*(process.create() for _ in range(20)))
        await asyncio.sleep(10)
        assert len(node.host.machines) == 24
        assert len({sandbox.machine_id for sandbox in made}) == 20
    assert len(node.host.machines) == 20
