"""Deliveries and destinations: written with the event that causes them, and given out in a fair order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sessions.destinations import (
    ATTEMPTS,
    Delivery,
    DeliveryFilter,
    DeliveryStatus,
    Destination,
)
from opencomputer.server.domain.sessions.errors import LimitReached, SessionArchived
from opencomputer.server.domain.sessions.events import Level
from opencomputer.server.domain.sessions.naming import new_delivery_id
from opencomputer.server.domain.sessions.session import Session
from tests.support import session_rows as new
from tests.unit.server.stores.sessions.conftest import Node

pytestmark = pytest.mark.anyio


async def registered(node: Node, session: Session, **changes: Any) -> Destination:
    return await node.tables.destinations.add(new.destination(session, **changes), most=20)


async def claimed(node: Node, seconds: float, *, limit: int = 100, each: int = 4) -> Sequence[Delivery]:
    now = new.at(seconds)
    return await node.tables.deliveries.claim(now, new.at(seconds + 60), limit=limit, each=each)


async def failed(node: Node, delivery: Delivery, due: float) -> None:
    await node.tables.deliveries.settle(
        replace(delivery, status=DeliveryStatus.FAILED, attempts=1, due_at=new.at(due), response_code=500)
    )


async def listed(node: Node, session: Session, **wanted: Any) -> Sequence[Delivery]:
    return await node.tables.deliveries.list(session.id, DeliveryFilter(**wanted), limit=100)


async def test_a_destination_gets_what_comes_after_it_and_passes_its_filters(node: Node) -> None:
    session = await node.admit()
    every = await registered(node, session, level=Level.INTERNAL)
    some = await registered(node, session, level=Level.INTERNAL, types=("turn.*",))
    off = await registered(node, session, enabled=False)
    assert every.created_after_seq == 1
    claim = await node.running(session.id)
    await node.complete(claim, events=[new.said()])
    seen = {
        each.id: sorted(row.event_seq for row in await listed(node, session, destination_id=each.id))
        for each in (every, some, off)
    }
    assert seen == {every.id: [2, 3, 4], some.id: [2, 4], off.id: []}


async def test_first_attempts_go_out_one_after_the_other_and_a_failed_one_blocks_none(node: Node) -> None:
    session = await node.admit()
    await registered(node, session)
    for number in range(3):
        await node.say(session.id, str(number))
    [first] = await claimed(node, 10)
    assert (first.event_seq, first.status) == (2, DeliveryStatus.DELIVERING)
    assert await claimed(node, 11) == []
    await failed(node, first, due=12)
    second, again = sorted(await claimed(node, 13), key=lambda each: -each.event_seq)
    assert (second.event_seq, again.event_seq) == (3, 2)
    assert again.attempts == 1


async def test_what_was_taken_by_one_that_died_is_given_out_again(node: Node) -> None:
    session = await node.admit()
    await registered(node, session)
    await node.say(session.id)
    [first] = await claimed(node, 10)
    assert await claimed(node, 69) == []
    assert [each.id for each in await claimed(node, 71)] == [first.id]


async def test_a_slow_destination_does_not_take_the_place_of_others(node: Node) -> None:
    session = await node.admit()
    slow = await registered(node, session)
    for number in range(10):
        await node.say(session.id, str(number))
    while rows := await claimed(node, 10, each=1):
        await failed(node, rows[0], due=20)
    other = await node.admit()
    await registered(node, other)
    await node.say(other.id, seconds=15)
    taken = await claimed(node, 21, limit=5, each=3)
    assert [each.destination_id == slow.id for each in taken].count(True) == 3
    assert {each.session_id for each in taken} == {session.id, other.id}
    assert await claimed(node, 22, limit=5, each=3) == []


async def test_a_disabled_destination_waits_and_goes_on_where_it_was(node: Node) -> None:
    session = await node.admit()
    there = await registered(node, session)
    await node.say(session.id)
    await node.tables.destinations.update(replace(there, enabled=False))
    await node.say(session.id)
    assert await claimed(node, 10) == []
    assert await node.tables.deliveries.next_due() is None
    await node.tables.destinations.update(there)
    assert [each.event_seq for each in await claimed(node, 11)] == [2]


async def test_nodes_that_take_at_the_same_time_take_nothing_twice(nodes: list[Node]) -> None:
    session = await nodes[0].admit()
    for _ in range(8):
        await registered(nodes[0], session)
    await nodes[0].say(session.id)
    taken = await asyncio.gather(*(claimed(node, 10, limit=3) for node in nodes for _ in range(2)))
    ids = [each.id for rows in taken for each in rows]
    assert len(ids) == len(set(ids)) == 8


async def test_one_that_was_asked_for_again_meanwhile_stays_asked_for(node: Node) -> None:
    session = await node.admit()
    await registered(node, session)
    await node.say(session.id)
    [taken] = await claimed(node, 10)
    again = await node.tables.deliveries.redeliver(taken.id, new.at(11))
    assert (again.status, again.budget, again.id) == (DeliveryStatus.PENDING, ATTEMPTS, taken.id)
    await node.tables.deliveries.settle(replace(taken, status=DeliveryStatus.DELIVERED, due_at=None))
    assert [each.id for each in await claimed(node, 12)] == [taken.id]
    with pytest.raises(NotFound):
        await node.tables.deliveries.redeliver(new_delivery_id(), new.at(12))


async def test_deliveries_are_listed_newest_first_in_pages(node: Node) -> None:
    session = await node.admit()
    await registered(node, session)
    for number in range(5):
        await node.say(session.id, str(number))
    store = node.tables.deliveries
    first = await store.list(session.id, DeliveryFilter(), limit=2)
    rest = await store.list(session.id, DeliveryFilter(), limit=9, after=first[-1])
    assert [each.event_seq for each in (*first, *rest)] == [6, 5, 4, 3, 2]
    assert await listed(node, session, status=DeliveryStatus.DELIVERED) == []
    assert await store.get(session.id, first[0].id) == first[0]
    other = await node.admit()
    assert await store.get(other.id, first[0].id) is None


async def test_a_destination_that_is_removed_takes_its_deliveries_along(node: Node) -> None:
    session = await node.admit()
    there = await registered(node, session)
    await node.say(session.id)
    assert await node.tables.destinations.delete(session.id, there.id)
    assert not await node.tables.destinations.delete(session.id, there.id)
    assert not await node.tables.destinations.update(there)
    assert await listed(node, session) == []
    assert await claimed(node, 10) == []


async def test_there_are_not_more_destinations_than_may_be(node: Node) -> None:
    session = await node.admit()
    for _ in range(2):
        await node.tables.destinations.add(new.destination(session), most=2)
    with pytest.raises(LimitReached):
        await node.tables.destinations.add(new.destination(session), most=2)
    await node.tables.sessions.archive(session.id, new.at(5))
    with pytest.raises(SessionArchived):
        await registered(node, session)
    assert len(await node.tables.destinations.list(session.id)) == 2
