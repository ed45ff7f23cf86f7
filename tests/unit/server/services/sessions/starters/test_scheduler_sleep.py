"""The scheduler sleeps until something is due, and looks once a minute; in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from opencomputer.server.contracts.starters import Firing, Hold
from opencomputer.server.services.sessions.scheduler import Scheduler
from tests.support.virtual_time import VirtualClock, virtual_backend

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> Any:
    return virtual_backend()


@dataclass
class Due:
    """A FiringStore with nothing but times; it notes when it is asked for what."""

    due: datetime | None = None
    looks: list[float] = field(default_factory=list[float])
    claims: list[float] = field(default_factory=list[float])
    failures: int = 0

    async def next_due(self) -> datetime | None:
        self.looks.append(VirtualClock().monotonic())
        if self.failures:
            self.failures -= 1
            raise OSError("the database is away")
        return self.due

    async def claim(self, now: datetime, hold: Hold, *, limit: int) -> Sequence[Firing]:
        assert self.due is not None
        assert hold.until > now >= self.due
        self.claims.append(VirtualClock().monotonic())
        self.due = None
        return []

    async def disown(self, prefix: str, owner: str) -> None:
        assert owner.startswith(prefix)


@asynccontextmanager
async def keeping(store: Any) -> AsyncGenerator[Scheduler]:
    nobody: Any = None
    scheduler = Scheduler(store, nobody, nobody, VirtualClock(), "node")
    task = asyncio.create_task(scheduler.keep())
    try:
        yield scheduler
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_without_schedules_it_looks_once_a_minute_and_does_nothing() -> None:
    store = Due()
    async with keeping(store):
        await asyncio.sleep(600)
    assert len(store.looks) <= 22
    assert store.claims == []


async def test_it_wakes_when_something_is_due() -> None:
    clock = VirtualClock()
    began = clock.monotonic()
    store = Due(clock.now() + timedelta(seconds=17))
    async with keeping(store):
        await asyncio.sleep(30)
    assert store.claims == [began + 17]


async def test_it_wakes_when_a_schedule_is_made() -> None:
    clock, store = VirtualClock(), Due()
    began = clock.monotonic()
    async with keeping(store) as scheduler:
        await asyncio.sleep(5)
        store.due = clock.now() + timedelta(seconds=3)
        scheduler.look()
        await asyncio.sleep(30)
    assert store.claims == [began + 8]


async def test_a_database_that_was_away_is_asked_again() -> None:
    clock = VirtualClock()
    store = Due(clock.now(), failures=1)
    async with keeping(store):
        await asyncio.sleep(61)
    assert len(store.claims) == 1
