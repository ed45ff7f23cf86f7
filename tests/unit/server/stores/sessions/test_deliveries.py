"""Destinations, and what is on its way to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.secrets import Ciphertext
from opencomputer.server.domain.sessions.destinations import (
    ATTEMPTS,
    Delivery,
    DeliveryFilter,
    Destination,
)
from opencomputer.server.domain.sessions.errors import LimitReached, SessionArchived
from opencomputer.server.domain.sessions.events import Level, NewEvent
from opencomputer.server.domain.sessions.naming import new_delivery_id, new_session_id
from opencomputer.server.domain.sessions.session import Session
from opencomputer.server.domain.webhooks.attempts import DeliveryStatus
from tests.support import session_rows as new
from tests.unit.server.stores.sessions.conftest import Node

pytestmark = pytest.mark.anyio

_ALL = DeliveryFilter()


async def _add(node: Node, session: Session, **changes: Any) -> Destination:
    return await node.tables.destinations.add(new.destination(session, **changes), most=20)


async def _sent(node: Node, session: Session) -> list[int]:
    """The seqs of what is to be delivered, oldest first."""
    deliveries = await node.tables.deliveries.list(session.id, _ALL, limit=100)
    return [each.event_seq for each in reversed(deliveries)]


async def _switch(node: Node, destination: Destination, *, on: bool) -> None:
    its = destination.session_id, destination.id
    await node.tables.destinations.change(*its, lambda present: replace(present, enabled=on))


async def _settle(node: Node, delivery: Delivery, status: DeliveryStatus, due: float | None = None) -> None:
    due_at = None if due is None else new.at(due)
    settled = replace(delivery, status=status, attempts=delivery.attempts + 1, due_at=due_at)
    await node.tables.deliveries.settle(delivery, settled)


async def test_a_destination_is_kept_as_it_is(node: Node) -> None:
    session = await node.admit()
    await node.say(session.id)
    secrets = ((Ciphertext(2, b"\xff\x00"), None), (Ciphertext(1, b"old"), new.at(5)))
    added = await _add(node, session, types=("turn.*", "x"), secrets=secrets, created_after_seq=99)
    assert added.created_after_seq == 2
    assert await node.tables.destinations.get(session.id, added.id) == added
    assert await node.tables.destinations.get(new_session_id(), added.id) is None
    changed = replace(
        added,
        url="https://other",
        types=None,
        enabled=False,
        secrets=(),
        created_after_seq=7,
        updated_at=new.at(9),
    )
    assert await node.tables.destinations.change(session.id, added.id, lambda _: changed) == changed
    kept = replace(changed, created_after_seq=2)
    assert list(await node.tables.destinations.list(session.id)) == [kept]
    assert await node.tables.destinations.delete(session.id, added.id)
    assert not await node.tables.destinations.delete(session.id, added.id)
    assert await node.tables.destinations.change(session.id, added.id, lambda _: changed) is None


async def test_there_are_not_more_than_allowed_and_none_of_an_archived_session(node: Node) -> None:
    session = await node.admit()
    for _ in range(2):
        await node.tables.destinations.add(new.destination(session), most=2)
    with pytest.raises(LimitReached):
        await node.tables.destinations.add(new.destination(session), most=2)
    with pytest.raises(NotFound):
        await _add(node, replace(session, id=new_session_id()))
    await node.tables.sessions.archive(session.id, new.at(1))
    with pytest.raises(SessionArchived):
        await _add(node, session)


async def test_one_that_came_with_the_session_gets_its_first_event(node: Node) -> None:
    wanted = new.admission(node.org_id)
    mine = new.destination(wanted.session, created_after_seq=5)
    session = (await node.tables.sessions.admit(replace(wanted, destinations=[mine]))).session
    assert await _sent(node, session) == [1]
    [kept] = await node.tables.destinations.list(session.id)
    assert kept.created_after_seq == 0


async def test_events_go_where_they_are_wanted(node: Node) -> None:
    session = await node.admit()
    everything = await _add(node, session, level=Level.INTERNAL)
    turns = await _add(node, session, types=("turn.*",))
    await _add(node, session, enabled=False)
    await _add(node, await node.admit())
    claim = await node.running(session.id)
    await node.tables.turns.append(claim, [NewEvent("tool.call", Level.INTERNAL, {"tool": "ls"})], new.at(2))
    await node.complete(claim)

    async def to(destination: Destination) -> list[int]:
        wanted = DeliveryFilter(destination_id=destination.id)
        found = await node.tables.deliveries.list(session.id, wanted, limit=9)
        return [each.event_seq for each in found]

    assert await to(everything) == [4, 3, 2]
    # turn.started is for whoever asks for progress.
    assert await to(turns) == [4]
    assert len(await node.tables.deliveries.list(session.id, _ALL, limit=9)) == 4


async def test_a_repeated_key_is_not_delivered_again(node: Node) -> None:
    session = await node.admit()
    await _add(node, session)
    claim = await node.running(session.id)
    for _ in range(2):
        await node.tables.turns.append(claim, [new.said(key="k")], new.at(2))
    assert await _sent(node, session) == [3]


async def test_first_attempts_go_out_in_order_one_at_a_time(node: Node) -> None:
    session, deliveries = await node.admit(), node.tables.deliveries
    await _add(node, session)
    for _ in range(3):
        await node.say(session.id)
    assert await deliveries.next_due() == new.at(2)
    assert await deliveries.claim(new.at(1), new.at(30), limit=9, each=9) == []
    [first] = await deliveries.claim(new.at(2), new.at(30), limit=9, each=9)
    assert (first.event_seq, first.status, first.due_at) == (2, DeliveryStatus.DELIVERING, new.at(30))
    assert (first.attempts, first.budget) == (0, ATTEMPTS)
    assert await deliveries.claim(new.at(3), new.at(31), limit=9, each=9) == []
    assert await deliveries.next_due() == new.at(30)
    # It failed, and holds nobody up.
    await _settle(node, first, DeliveryStatus.FAILED, due=5)
    [second] = await deliveries.claim(new.at(4), new.at(40), limit=9, each=9)
    assert second.event_seq == 3
    [again] = await deliveries.claim(new.at(5), new.at(40), limit=9, each=9)
    assert (again.id, again.attempts) == (first.id, 1)
    await _settle(node, second, DeliveryStatus.DELIVERED)
    await _settle(node, again, DeliveryStatus.DEAD_LETTER)
    [third] = await deliveries.claim(new.at(6), new.at(40), limit=9, each=9)
    await _settle(node, third, DeliveryStatus.DELIVERED)
    assert await deliveries.next_due() is None


async def test_one_destination_does_not_hold_up_another(node: Node) -> None:
    session, deliveries = await node.admit(), node.tables.deliveries
    destinations = [await _add(node, session) for _ in range(2)]
    for _ in range(2):
        await node.say(session.id)
    claimed = await deliveries.claim(new.at(3), new.at(30), limit=9, each=9)
    assert {each.destination_id for each in claimed} == {each.id for each in destinations}
    assert [each.event_seq for each in claimed] == [2, 2]
    one, _ = claimed
    await _settle(node, one, DeliveryStatus.DELIVERED)
    [following] = await deliveries.claim(new.at(4), new.at(30), limit=9, each=9)
    assert (following.destination_id, following.event_seq) == (one.destination_id, 3)


async def test_what_nobody_settled_is_due_again(node: Node) -> None:
    session, deliveries = await node.admit(), node.tables.deliveries
    await _add(node, session)
    await node.say(session.id)
    [first] = await deliveries.claim(new.at(3), new.at(30), limit=9, each=9)
    [again] = await deliveries.claim(new.at(30), new.at(60), limit=9, each=9)
    assert (again.id, again.due_at) == (first.id, new.at(60))


async def test_a_disabled_destination_waits(node: Node) -> None:
    session, deliveries = await node.admit(), node.tables.deliveries
    destination = await _add(node, session)
    await node.say(session.id)
    await _switch(node, destination, on=False)
    await node.say(session.id)
    assert await deliveries.claim(new.at(3), new.at(30), limit=9, each=9) == []
    assert await deliveries.next_due() is None
    with node.signals.on_delivery() as told:
        await _switch(node, destination, on=True)
        assert told.count == 1
    assert [each.event_seq for each in await deliveries.claim(new.at(3), new.at(30), limit=9, each=9)] == [2]
    assert await _sent(node, session) == [2]


async def test_delivers_again_on_demand(node: Node) -> None:
    session, deliveries = await node.admit(), node.tables.deliveries
    await _add(node, session)
    await node.say(session.id)
    [delivery] = await deliveries.claim(new.at(3), new.at(30), limit=9, each=9)
    await _settle(node, replace(delivery, budget=0), DeliveryStatus.DEAD_LETTER)
    again = await deliveries.redeliver(delivery.id, new.at(50))
    assert (again.status, again.attempts, again.budget, again.due_at) == (
        DeliveryStatus.PENDING,
        1,
        ATTEMPTS,
        new.at(50),
    )
    assert await deliveries.get(session.id, delivery.id) == again
    # An answer to the attempt before comes too late.
    await _settle(node, delivery, DeliveryStatus.DELIVERED)
    assert await deliveries.get(session.id, delivery.id) == again
    with pytest.raises(NotFound):
        await deliveries.redeliver(new_delivery_id(), new.at(50))


async def test_lists_newest_first(node: Node) -> None:
    session, deliveries = await node.admit(), node.tables.deliveries
    await _add(node, session)
    await _add(node, session)
    for _ in range(3):
        await node.say(session.id)
    first = await deliveries.list(session.id, _ALL, limit=4)
    rest = await deliveries.list(session.id, _ALL, limit=4, after=first[-1])
    assert [each.event_seq for each in [*first, *rest]] == [4, 4, 3, 3, 2, 2]
    assert len({each.id for each in [*first, *rest]}) == 6
    await _settle(
        node, (await deliveries.claim(new.at(3), new.at(30), limit=1, each=9))[0], DeliveryStatus.DELIVERED
    )
    done = DeliveryFilter(status=DeliveryStatus.DELIVERED)
    assert len(await deliveries.list(session.id, done, limit=9)) == 1


async def test_deleting_a_destination_forgets_what_was_on_its_way(node: Node) -> None:
    session = await node.admit()
    destination = await _add(node, session)
    await node.say(session.id)
    await node.tables.destinations.delete(session.id, destination.id)
    assert await _sent(node, session) == []
    await node.say(session.id)
