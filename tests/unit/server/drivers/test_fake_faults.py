"""The fake driver does wrong exactly what it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from opencomputer.server.contracts.driver import Capabilities
from opencomputer.server.drivers.fake.driver import FakeConfig, FakeDriver
from tests.support.driver_harness import FakeHarness, fake_harness
from tests.support.guest_probe import answers, wait_until_it_answers

pytestmark = pytest.mark.anyio


class Ordered(Exception):
    pass


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def harness(tmp_path: Path, anyio_backend: str) -> AsyncGenerator[FakeHarness]:
    async with fake_harness(tmp_path) as made:
        yield made


@pytest.mark.parametrize("step", ["start", "folder", "guest", "record"])
async def test_a_start_fails_at_the_step_it_is_told_to_and_leaves_nothing(
    harness: FakeHarness, step: str
) -> None:
    harness.faults.fail_on[step] = Ordered()
    with pytest.raises(Ordered):
        await harness.driver.start(harness.spec())
    assert harness.leftovers() == []


@pytest.mark.parametrize("step", ["start", "folder", "guest", "record"])
async def test_a_start_that_hangs_can_be_cancelled(harness: FakeHarness, step: str) -> None:
    harness.faults.hang_on.add(step)
    start = asyncio.ensure_future(harness.driver.start(harness.spec()))
    done, _ = await asyncio.wait([start], timeout=0.5)
    assert not done
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert harness.leftovers() == []


@pytest.mark.parametrize("step", ["freeze", "thaw", "save", "stop"])
async def test_a_machine_fails_at_the_step_it_is_told_to(harness: FakeHarness, step: str) -> None:
    machine = await harness.driver.start(harness.spec())
    harness.faults.fail_on[step] = Ordered()
    calls = {
        "freeze": machine.freeze,
        "thaw": machine.thaw,
        "save": lambda: machine.save(harness.folder / "image"),
        "stop": machine.stop,
    }
    with pytest.raises(Ordered):
        await calls[step]()
    harness.faults.fail_on.clear()
    await wait_until_it_answers(machine.guest_address)


async def test_a_machine_that_dies_young(harness: FakeHarness) -> None:
    harness.faults.die_after_seconds = 0.1
    machine = await harness.driver.start(harness.spec())
    assert await asyncio.wait_for(machine.wait(), 60) == "exited"


async def test_a_mute_machine_accepts_and_says_nothing(harness: FakeHarness) -> None:
    harness.faults.mute = True
    machine = await harness.driver.start(harness.spec())
    assert not await answers(machine.guest_address, within_seconds=0.3)


async def test_capabilities_are_what_it_is_given(tmp_path: Path) -> None:
    poor = Capabilities(memory_snapshots=False, setuid=False, saves_deleted_files=False)
    assert FakeDriver(FakeConfig(tmp_path, tmp_path, capabilities=poor)).capabilities == poor
