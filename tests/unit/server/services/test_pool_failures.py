"""Starts that fail: told to one who waits, slowed down, and nobody else's trouble."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pytest

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.domain.errors import StartFailed
from tests.unit.server.services.harness import BASE, Node, pool_of, ready, settle

pytestmark = pytest.mark.anyio


async def test_a_claim_fails_with_the_fault_of_its_start(node: Node) -> None:
    async def broken(step: str, _machine: MachineId) -> None:
        if step == "start":
            raise StartFailed("no such template layer")

    node.host.before = broken
    async with node.process() as process:
        with pytest.raises(StartFailed, match="layer"):
            await process.pool.claim(BASE)
    assert node.tables.machines == {}


async def test_a_fault_of_our_own_fails_a_claim_too_instead_of_letting_it_wait(node: Node) -> None:
    async def broken(_step: str, _machine: MachineId) -> None:
        raise ValueError("a bug")

    node.host.before = broken
    async with node.process() as process:
        began = process.clock.monotonic()
        with pytest.raises(StartFailed):
            await process.pool.claim(BASE)
        assert process.clock.monotonic() - began < 1


async def test_a_template_that_never_starts_does_not_eat_the_host(node: Node) -> None:
    node.policy = pool_of(2)
    attempts: list[float] = []

    async def broken(step: str, _machine: MachineId) -> None:
        if step == "start":
            attempts.append(asyncio.get_running_loop().time())
            raise StartFailed

    node.host.before = broken
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle(600)
    pauses = [later - earlier for earlier, later in itertools.pairwise(attempts)]
    assert len(attempts) < 20
    assert pauses == sorted(pauses)
    assert pauses[-1] <= 61


async def test_a_claim_does_not_wait_for_the_pause_of_a_failing_refill(node: Node) -> None:
    """Its caller is told the fault now, or served because it has passed; neither after a minute."""
    node.policy = pool_of(1)
    broken = True

    async def before(step: str, _machine: MachineId) -> None:
        if step == "start" and broken:
            raise StartFailed

    node.host.before = before
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle(245)
        began = process.clock.monotonic()
        with pytest.raises(StartFailed):
            await process.pool.claim(BASE)
        broken = False
        await process.pool.claim(BASE)
        assert process.clock.monotonic() - began < 5


async def test_after_a_success_the_pauses_begin_anew(node: Node) -> None:
    node.policy = pool_of(1)
    broken = True

    async def before(step: str, _machine: MachineId) -> None:
        if step == "start" and broken:
            raise StartFailed

    node.host.before = before
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle(300)
        broken = False
        await settle(100)
        assert ready(process.pool) == 1


async def test_a_broken_template_does_not_starve_another(node: Node) -> None:
    node.policy = pool_of(1)
    other = replace(BASE, name="broken", hash="hb")
    node.templates.templates.append(other)

    async def before(step: str, _machine: MachineId) -> None:
        if step == "start" and node_starts_broken():
            raise StartFailed

    def node_starts_broken() -> bool:
        return process.pool.sizes().get("base", 0) == 1

    node.host.before = before
    async with node.process() as process:
        process.pool.stock(BASE)
        await settle(5)
        process.pool.stock(other)
        await settle(120)
        assert process.pool.sizes() == {"base": 1, "broken": 0}
        await process.pool.claim(BASE)
