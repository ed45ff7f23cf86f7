"""The pool: claims in order, refilled, bounded, never losing a machine."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.contracts.stores import MachineState
from opencomputer.server.domain.capacity import PoolPolicy
from opencomputer.server.domain.errors import NoCapacity
from tests.unit.server.services.harness import BASE, LIMITS, Node, pool_of, ready, settle

OTHER_LIMITS = replace(LIMITS, disk_bytes=2 * LIMITS.disk_bytes)

pytestmark = pytest.mark.anyio

NEWER = replace(BASE, hash="h2")


async def test_a_claim_is_served_at_once_from_what_is_ready(node: Node) -> None:
    node.policy = pool_of(3)
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle()
        began = process.clock.monotonic()
        machine = await process.pool.claim(BASE)
        assert process.clock.monotonic() == began
        assert machine.id in node.host.machines


async def test_the_pool_is_filled_one_by_one_and_refilled_after_a_claim(node: Node) -> None:
    node.policy = pool_of(4)
    node.host.start_seconds = 0.2
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle(10)
        assert (ready(process.pool), node.host.most_at_once) == (4, 1)
        await process.pool.claim(BASE)
        await settle(10)
        assert ready(process.pool) == 4
        assert len(node.host.started) == 5


async def test_a_refill_waits_for_a_quiet_moment_while_enough_is_left(node: Node) -> None:
    """One claim after the other is served without a start that competes with them."""
    node.policy = pool_of(8)
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle(10)
        for _ in range(5):
            await process.pool.claim(BASE)
            await settle(0.3)
        assert len(node.host.started) == 8
        await settle(10)
        assert ready(process.pool) == 8


async def test_a_refill_does_not_wait_when_little_is_left(node: Node) -> None:
    """A client that claims without a pause must not leave the pool empty."""
    node.policy = pool_of(8)
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle(10)
        for _ in range(20):
            await process.pool.claim(BASE)
            await settle(0.3)
        assert ready(process.pool) >= 1


async def test_members_rest_until_they_are_claimed(node: Node) -> None:
    node.policy = pool_of(2)
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle()
        assert [machine.rests for machine in node.host.machines.values()] == [1, 1]


async def test_claims_are_served_in_the_order_they_came(node: Node) -> None:
    node.parallel_starts = 1
    node.host.start_seconds = 1.0
    served: list[int] = []
    async with node.process() as process:

        async def claim(number: int) -> None:
            await process.pool.claim(BASE)
            served.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(claim(number))
                await settle(0.01)
    assert served == [0, 1, 2, 3, 4]


async def test_each_claim_gets_a_machine_of_its_own(node: Node) -> None:
    node.policy = pool_of(3)
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle()
        claimed = await asyncio.gather(*(process.pool.claim(BASE) for _ in range(10)))
        assert len({machine.id for machine in claimed}) == 10


async def test_no_more_start_at_once_than_is_allowed(node: Node) -> None:
    node.parallel_starts = 3
    node.host.start_seconds = 1.0
    async with node.process() as process:
        await asyncio.gather(*(process.pool.claim(BASE) for _ in range(12)))
    assert node.host.most_at_once == 3


async def test_without_a_pool_a_claim_starts_a_machine(node: Node) -> None:
    async with node.process() as process:
        await process.pool.claim(BASE)
        await settle(100)
        assert len(node.host.started) == 1
        assert ready(process.pool) == 0


async def test_a_full_host_is_asked_again_and_the_claim_waits(node: Node) -> None:
    node.host.free = replace(node.host.free, available_memory_bytes=0)
    async with node.process() as process:
        claim = asyncio.create_task(process.pool.claim(BASE))
        await settle(10)
        assert not claim.done()
        node.host.free = replace(node.host.free, available_memory_bytes=20 << 30)
        began = process.clock.monotonic()
        await claim
        assert process.clock.monotonic() - began <= 2


async def test_a_claim_that_waited_long_enough_is_told_what_is_missing(node: Node) -> None:
    node.host.free = replace(node.host.free, available_memory_bytes=0)
    async with node.process() as process:
        began = process.clock.monotonic()
        with pytest.raises(NoCapacity, match="memory"):
            await process.pool.claim(BASE)
        assert 29 <= process.clock.monotonic() - began <= 31
    assert node.host.started == []


async def test_a_refusal_of_long_ago_is_not_the_reason_of_today(node: Node) -> None:
    node.host.free = replace(node.host.free, available_memory_bytes=0)
    async with node.process() as process:
        with pytest.raises(NoCapacity):
            await process.pool.claim(BASE)
        node.host.free = replace(node.host.free, available_memory_bytes=20 << 30)
        await process.pool.claim(BASE)
        node.host.start_seconds = 1000.0
        with pytest.raises(NoCapacity) as refused:
            await process.pool.claim(BASE)
        assert "memory" not in refused.value.message


async def test_a_claim_given_up_loses_no_machine(node: Node) -> None:
    node.host.start_seconds = 1.0
    async with node.process() as process:
        claim = asyncio.create_task(process.pool.claim(BASE))
        await settle(0.5)
        claim.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claim
        await settle(5)
        assert ready(process.pool) == 1
        assert await process.pool.claim(BASE)
        assert len(node.host.started) == 1


@pytest.mark.parametrize("ticks", range(8))
async def test_a_machine_handed_to_a_claim_that_ends_meanwhile_goes_to_the_next(
    node: Node, ticks: int
) -> None:
    """The claim is cancelled so many turns of the event loop after its machine came up."""
    node.parallel_starts = 1
    node.host.start_seconds = 1.0
    async with node.process() as process:
        began = process.clock.monotonic()
        first = asyncio.create_task(process.pool.claim(BASE))
        await settle(0.1)
        second = asyncio.create_task(process.pool.claim(BASE))
        started = asyncio.Event()

        async def tell(step: str, _machine: MachineId) -> None:
            if step == "started":
                started.set()

        node.host.before = tell
        await started.wait()
        for _ in range(ticks):
            await asyncio.sleep(0)
        first.cancel()
        outcomes = await asyncio.gather(first, second, return_exceptions=True)
        assert not isinstance(outcomes[1], BaseException)
        if isinstance(outcomes[0], BaseException):
            assert process.clock.monotonic() < began + 1.5
        await settle(5)
        held = sum(not isinstance(outcome, BaseException) for outcome in outcomes)
        assert len(node.host.machines) == held + ready(process.pool)


async def test_a_member_that_died_is_dropped_and_replaced(node: Node) -> None:
    node.policy = pool_of(2)
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle(10)
        dead, alive = node.host.machines.values()
        dead.die()
        claimed = await process.pool.claim(BASE)
        assert claimed.id == alive.id
        await settle(10)
        assert ready(process.pool) == 2
        assert dead.id not in node.host.machines
        assert dead.id not in node.tables.machines


async def test_a_dead_member_is_noticed_without_a_claim(node: Node) -> None:
    node.policy = pool_of(1)
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle(10)
        next(iter(node.host.machines.values())).die()
        await settle(10)
        assert ready(process.pool) == 1
        assert [machine.lost for machine in node.host.machines.values()] == [False]


async def test_a_newer_build_of_a_template_retires_the_older_ones_machines(node: Node) -> None:
    node.policy = pool_of(2)
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle(10)
        process.pool.stock(NEWER)
        await settle(10)
        hashes = [row.template_hash for row in node.tables.machines.values()]
        assert hashes == ["h2", "h2"]
        assert len(node.host.machines) == 2


@pytest.mark.parametrize("after", [0.0, 0.5, 0.99, 1.01])
async def test_a_machine_of_the_older_build_that_comes_up_late_is_not_kept(node: Node, after: float) -> None:
    node.policy = pool_of(2)
    node.host.start_seconds = 1.0
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle(after)
        process.pool.stock(NEWER)
        await settle(20)
        assert [row.template_hash for row in node.tables.machines.values()] == ["h2", "h2"]
        assert len(node.host.machines) == 2


async def test_one_who_waits_for_the_older_build_is_still_served(node: Node) -> None:
    node.host.start_seconds = 1.0
    async with node.process() as process:
        claim = asyncio.create_task(process.pool.claim(BASE))
        await settle(0.5)
        process.pool.stock(NEWER)
        machine = await claim
        await settle(5)
        assert list(node.host.machines) == [machine.id]


async def test_a_machine_with_another_disk_is_started_for_the_claim(node: Node) -> None:
    """The size of a disk cannot be changed."""
    node.policy = pool_of(1)
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle(10)
        machine = await process.pool.claim(BASE, OTHER_LIMITS)
        (spec,) = (each for each in node.host.started if each.id == machine.id)
        assert spec.limits == OTHER_LIMITS
        assert ready(process.pool) == 1


async def test_a_machine_of_another_size_that_takes_too_long_is_no_capacity(node: Node) -> None:
    node.host.start_seconds = 1000
    async with node.process() as process:
        with pytest.raises(NoCapacity):
            await process.pool.claim(BASE, OTHER_LIMITS)
    assert node.tables.machines == {}


async def test_claims_that_no_member_can_serve_are_no_demand_for_members(node: Node) -> None:
    node.policy = PoolPolicy(memory_share=0.9, machine_bytes=1 << 20, minimum=0, maximum=50)
    async with node.process() as process:
        for _ in range(5):
            await process.pool.claim(BASE, OTHER_LIMITS)
        await settle(30)
        assert ready(process.pool) == 0
        await process.pool.claim(BASE)
        await settle(30)
        assert ready(process.pool) == 2


async def test_closing_ends_every_member_and_every_start(node: Node) -> None:
    node.policy = pool_of(3)
    node.host.start_seconds = 1.0
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle(2.5)
        assert ready(process.pool) == 2
    assert node.host.machines == {}
    assert node.tables.machines == {}


async def test_closing_leaves_what_was_claimed_alone(node: Node) -> None:
    async with node.process() as process:
        machine = await process.pool.claim(BASE)
    assert list(node.host.machines) == [machine.id]
    assert node.tables.machines[machine.id].state is MachineState.READY


async def test_members_start_with_the_limits_of_the_pool_and_what_the_processor_has_left(node: Node) -> None:
    node.policy = pool_of(1)
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle()
        (spec,) = node.host.started
        assert spec.layers == BASE.layers
        # Whoever makes it ready may slow its start down; nothing else differs.
        assert replace(spec.limits, cpu_weight=LIMITS.cpu_weight) == LIMITS


async def test_a_row_is_there_before_and_after_each_start(node: Node) -> None:
    states: list[MachineState] = []

    async def look(step: str, machine: MachineId) -> None:
        if step in ("start", "started"):
            states.append(node.tables.machines[machine].state)

    node.host.before = look
    async with node.process() as process:
        machine = await process.pool.claim(BASE)
        assert node.tables.machines[machine.id].state is MachineState.READY
    assert states == [MachineState.STARTING, MachineState.STARTING]
