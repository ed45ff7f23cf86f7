"""A machine in which nothing runs is frozen while nobody needs it, and never under somebody's hands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

import pytest

from opencomputer.server.domain.errors import GuestFault
from opencomputer.server.machines.dozing import IDLE_SECONDS, RECHECK_SECONDS, Dozing

pytestmark = pytest.mark.anyio


class HandClock:
    """Time passes when the test says so."""

    def __init__(self) -> None:
        self._now = 0.0
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._now, UTC)

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        self._sleepers.append((self._now + seconds, woken))
        await woken.wait()

    async def pass_time(self, seconds: float) -> None:
        await settle()
        self._now += seconds
        for when, woken in self._sleepers:
            if when <= self._now:
                woken.set()
        self._sleepers = [(when, woken) for when, woken in self._sleepers if when > self._now]
        await settle()


class FakeMachine:
    """Each change takes a while, so that others can come in between."""

    def __init__(self) -> None:
        self.frozen = False
        self.changes: list[str] = []
        self.processes = 0
        self.questions = 0
        self.fails = False

    async def freeze(self) -> None:
        await asyncio.sleep(0)
        self.frozen = True
        self.changes.append("freeze")

    async def thaw(self) -> None:
        await asyncio.sleep(0)
        self.frozen = False
        self.changes.append("thaw")

    async def has_processes(self) -> bool:
        self.questions += 1
        assert not self.frozen
        await asyncio.sleep(0)
        if self.fails:
            raise GuestFault
        return self.processes > 0


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def fake() -> FakeMachine:
    return FakeMachine()


@pytest.fixture
async def dozing(clock: HandClock, fake: FakeMachine) -> AsyncGenerator[Dozing]:
    dozing = Dozing(fake, clock, fake.has_processes)
    yield dozing
    await dozing.close()


async def use(dozing: Dozing) -> None:
    async with dozing.awake():
        pass


async def test_an_adopted_machine_is_thawed_before_its_first_use(dozing: Dozing, fake: FakeMachine) -> None:
    fake.frozen = True
    async with dozing.awake():
        assert not fake.frozen


async def test_it_freezes_when_nobody_used_it_for_a_while(
    dozing: Dozing, clock: HandClock, fake: FakeMachine
) -> None:
    await use(dozing)
    await clock.pass_time(IDLE_SECONDS - 0.1)
    assert not fake.frozen
    await clock.pass_time(0.2)
    assert fake.frozen


async def test_each_use_begins_the_while_anew(dozing: Dozing, clock: HandClock, fake: FakeMachine) -> None:
    await use(dozing)
    await clock.pass_time(IDLE_SECONDS * 0.6)
    await use(dozing)
    await clock.pass_time(IDLE_SECONDS * 0.6)
    assert not fake.frozen
    await clock.pass_time(IDLE_SECONDS * 0.6)
    assert fake.frozen


async def test_it_stays_awake_as_long_as_somebody_needs_it(
    dozing: Dozing, clock: HandClock, fake: FakeMachine
) -> None:
    async with dozing.awake():
        await use(dozing)
        await clock.pass_time(IDLE_SECONDS * 10)
        assert not fake.frozen
    await clock.pass_time(IDLE_SECONDS)
    assert fake.frozen


async def test_a_machine_with_processes_is_not_frozen_behind_their_back(
    dozing: Dozing, clock: HandClock, fake: FakeMachine
) -> None:
    fake.processes = 1
    await use(dozing)
    await clock.pass_time(IDLE_SECONDS)
    await clock.pass_time(RECHECK_SECONDS)
    assert fake.questions == 2
    assert not fake.frozen
    fake.processes = 0
    await clock.pass_time(RECHECK_SECONDS)
    assert fake.frozen


async def test_the_next_use_thaws(dozing: Dozing, clock: HandClock, fake: FakeMachine) -> None:
    await use(dozing)
    await clock.pass_time(IDLE_SECONDS)
    async with dozing.awake():
        assert not fake.frozen
    assert fake.changes == ["thaw", "freeze", "thaw"]


@pytest.mark.parametrize("steps", range(8))
async def test_a_freeze_never_catches_a_use_that_comes_in_between(
    dozing: Dozing, fake: FakeMachine, steps: int
) -> None:
    await use(dozing)
    resting = asyncio.create_task(dozing.rest())
    for _ in range(steps):
        await asyncio.sleep(0)
    async with dozing.awake():
        for _ in range(10):
            assert not fake.frozen
            await asyncio.sleep(0)
    await resting
    assert not fake.frozen


@pytest.mark.parametrize("steps", range(5))
async def test_a_freeze_that_is_interrupted_is_undone_by_the_next_use(
    dozing: Dozing, fake: FakeMachine, steps: int
) -> None:
    await use(dozing)
    resting = asyncio.create_task(dozing.rest())
    for _ in range(steps):
        await asyncio.sleep(0)
    resting.cancel()
    await asyncio.gather(resting, return_exceptions=True)
    async with dozing.awake():
        assert not fake.frozen


async def test_resting_twice_is_fine(dozing: Dozing, fake: FakeMachine) -> None:
    await use(dozing)
    assert await dozing.rest()
    assert await dozing.rest()
    assert fake.changes == ["thaw", "freeze"]


async def test_resting_during_a_use_does_nothing(dozing: Dozing, fake: FakeMachine) -> None:
    async with dozing.awake():
        assert not await dozing.rest()
    assert not fake.frozen


async def test_a_guest_that_does_not_answer_is_left_alone(
    dozing: Dozing, clock: HandClock, fake: FakeMachine
) -> None:
    fake.fails = True
    await use(dozing)
    await clock.pass_time(IDLE_SECONDS)
    assert not fake.frozen
    fake.fails = False
    await use(dozing)
    await clock.pass_time(IDLE_SECONDS)
    assert fake.frozen


async def test_nothing_is_frozen_after_closing(dozing: Dozing, clock: HandClock, fake: FakeMachine) -> None:
    await use(dozing)
    await dozing.close()
    await clock.pass_time(IDLE_SECONDS * 5)
    assert not fake.frozen
