"""Writing decisions down: in batches, bounded, and with a count of what is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from opencomputer.server.contracts.egress import EgressEvent, EgressQuery, RecordedEvent
from opencomputer.server.services.egress_writer import EgressWriter, Retention
from opencomputer.wire.ids import OrgId, SandboxId
from tests.support.virtual_time import VirtualClock

pytestmark = pytest.mark.anyio

BOX, OTHER = SandboxId("sb-00000001"), SandboxId("sb-00000002")
EVENT = EgressEvent(datetime(2026, 1, 1, tzinfo=UTC), OrgId("o"), BOX, "dns", "h", 53, "denied")


class Store:
    """Implements EgressEventStore in a list of batches."""

    def __init__(self) -> None:
        self.batches: list[list[EgressEvent]] = []
        self.pruned: list[tuple[datetime, int]] = []
        self.broken = False
        self.stuck = False

    async def add(self, events: Sequence[EgressEvent]) -> None:
        if self.stuck:
            await asyncio.Event().wait()
        if self.broken:
            raise OSError("no space left on device")
        self.batches.append(list(events))

    async def find(self, query: EgressQuery) -> Sequence[RecordedEvent]:
        raise NotImplementedError

    async def prune(self, before: datetime, *, keep: int) -> int:
        self.pruned.append((before, keep))
        return 0

    @property
    def events(self) -> list[EgressEvent]:
        return [event for batch in self.batches for event in batch]


@pytest.fixture
def store() -> Store:
    return Store()


def writer_of(store: Store) -> EgressWriter:
    return EgressWriter(store, VirtualClock(), Retention(timedelta(days=2), 10))


async def test_events_are_written_soon_and_together(store: Store) -> None:
    async with writer_of(store) as writer:
        for number in range(5):
            writer.record(replace(EVENT, port=number))
        await asyncio.sleep(1)
        assert [[event.port for event in batch] for batch in store.batches] == [[0, 1, 2, 3, 4]]


async def test_what_is_left_is_written_at_the_end(store: Store) -> None:
    async with writer_of(store) as writer:
        writer.record(EVENT)
    assert store.events == [EVENT]


async def test_the_end_of_a_node_does_not_wait_for_a_store_that_hangs(store: Store) -> None:
    async with asyncio.timeout(60):
        async with writer_of(store) as writer:
            store.stuck = True
            writer.record(EVENT)
    assert store.events == []


async def test_a_flood_of_one_sandbox_is_cut_counted_and_hides_no_other(store: Store) -> None:
    async with writer_of(store) as writer:
        for _ in range(500):
            writer.record(EVENT)
        writer.record(replace(EVENT, sandbox_id=OTHER))
        assert writer.lost == 300
        await asyncio.sleep(2)
        writer.record(EVENT)
        await asyncio.sleep(1)
    assert [event.lost for event in store.events if event.sandbox_id == BOX] == [0] * 200 + [300]
    assert [event.lost for event in store.events if event.sandbox_id == OTHER] == [0]
    assert writer.lost == 0


async def test_a_store_that_fails_is_tried_again_and_memory_stays_bounded(store: Store) -> None:
    store.broken = True
    async with writer_of(store) as writer:
        for second in range(150):
            for _ in range(200):
                writer.record(replace(EVENT, port=second))
            await asyncio.sleep(1)
        assert writer.lost == 10_000
        store.broken = False
        await asyncio.sleep(5)
        writer.record(EVENT)
        await asyncio.sleep(1)
    assert len(store.events) == 20_001
    assert store.events[-1].lost == 10_000
    assert [event.port for event in store.events[:-1]] == sorted(event.port for event in store.events[:-1])


async def test_old_events_are_removed_at_the_start_and_every_hour(store: Store) -> None:
    began = VirtualClock().now()
    async with writer_of(store) as writer:
        await asyncio.sleep(1)
        assert len(store.pruned) == 1
        await asyncio.sleep(3600)
        writer.record(EVENT)
        await asyncio.sleep(1)
        writer.record(EVENT)
        await asyncio.sleep(1)
    assert len(store.pruned) == 2
    assert [keep for _, keep in store.pruned] == [10, 10]
    assert store.pruned[0][0] == began - timedelta(days=2)
