"""Webhooks from event to receiver: in order, tried again, and never lost when a server dies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path

import pytest

from opencomputer.sdk.durable.webhooks import verify_webhook
from opencomputer.server.domain.sessions.destinations import Delivery
from opencomputer.server.domain.webhooks.attempts import Attempt, DeliveryStatus
from opencomputer.server.services.sessions.deliveries import SessionMail
from tests.support.receivers import answering, hang_up, receiver, silence
from tests.support.webhook_world import SECRET, World, webhook_world

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Real receivers take real time."""
    return "asyncio"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    async with webhook_world(tmp_path) as world:
        yield world


async def test_a_webhook_arrives_signed_and_is_noted_as_delivered(world: World) -> None:
    async with receiver(answering(204)) as there, world.sending():
        session = await world.session()
        await world.registered(session, there.url)
        await world.say(session)
        [received] = await there.wait_for(1)
        [delivery] = await world.until(session, DeliveryStatus.DELIVERED)
    now = world.clock.now().timestamp()
    verified = verify_webhook(received.body, received.headers, SECRET, now_seconds=now)
    assert verified.type == "user.message"
    assert verified.metadata == {"someKey": {"other_key": 1}}
    assert (verified.event_id, verified.delivery_id) == (delivery.event_id, delivery.id)
    assert json.loads(received.body)["event"]["seq"] == delivery.event_seq == 2
    assert (delivery.attempts, delivery.response_code, delivery.error) == (1, 204, None)


async def test_the_same_webhook_comes_again_until_it_is_taken(world: World) -> None:
    async with receiver(answering(500, b"not now")) as there, world.sending():
        session = await world.session()
        await world.registered(session, there.url)
        await world.say(session)
        [failed] = await world.until(session, DeliveryStatus.FAILED)
        assert (failed.response_code, failed.error) == (500, "the receiver answered 500: not now")
        assert failed.due_at == world.clock.now() + timedelta(seconds=5)
        there.respond = answering(200)
        world.later(5)
        [delivered] = await world.until(session, DeliveryStatus.DELIVERED)
    first, second = there.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == delivered.event_id
    assert first.headers["x-oc-delivery-id"] == second.headers["x-oc-delivery-id"] == delivered.id
    assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) == 5
    assert first.body == second.body
    assert delivered.attempts == 2


async def test_events_arrive_in_order_however_long_each_takes(world: World) -> None:
    async with receiver() as there, world.sending():
        session = await world.session()
        await world.registered(session, there.url)
        await asyncio.gather(*(world.say(session, str(number)) for number in range(20)))
        received = await there.wait_for(20)
        await world.until(session, DeliveryStatus.DELIVERED, 20)
    assert [json.loads(each.body)["event"]["seq"] for each in received] == list(range(2, 22))


async def test_a_failing_webhook_does_not_block_the_next_ones(world: World) -> None:
    async with receiver(answering(500)) as there, world.sending():
        session = await world.session()
        await world.registered(session, there.url)
        for number in range(3):
            await world.say(session, str(number))
        received = await there.wait_for(3)
    assert [json.loads(each.body)["event"]["seq"] for each in received] == [2, 3, 4]


async def test_a_receiver_that_hangs_keeps_no_other_waiting(world: World) -> None:
    async with receiver(silence) as stuck, receiver() as quick, world.sending():
        slow, fast = await world.session(), await world.session()
        await world.registered(slow, stuck.url)
        await world.registered(fast, quick.url)
        for number in range(10):
            await world.say(slow, str(number))
        await stuck.wait_for(1)
        for number in range(10):
            await world.say(fast, str(number))
        await quick.wait_for(10)
        assert len(stuck.received) == 1


async def test_what_was_on_its_way_when_the_server_died_is_sent_again_under_its_id(world: World) -> None:
    async with receiver(silence) as there:
        session = await world.session()
        await world.registered(session, there.url)
        await world.say(session)
        async with world.sending():
            await there.wait_for(1)
        [held] = await world.list(session)
        assert held.status is DeliveryStatus.DELIVERING
        there.respond = answering(200)
        world.clock.advance(61)
        async with world.sending():
            [delivered] = await world.until(session, DeliveryStatus.DELIVERED)
    assert len({each.headers["webhook-id"] for each in there.received}) == 1
    assert (delivered.id, len(there.received)) == (held.id, 2)


async def test_a_server_that_starts_goes_on_with_what_failed_before(world: World) -> None:
    async with receiver(hang_up) as there:
        session = await world.session()
        await world.registered(session, there.url)
        await world.say(session)
        async with world.sending():
            await world.until(session, DeliveryStatus.FAILED)
        there.respond = answering(200)
        world.clock.advance(6)
        async with world.sending():
            [delivered] = await world.until(session, DeliveryStatus.DELIVERED)
    assert delivered.attempts == 2


async def test_after_eight_attempts_it_is_given_up_and_starts_over_when_asked_for(world: World) -> None:
    async with receiver(answering(503)) as there, world.sending():
        session = await world.session()
        await world.registered(session, there.url)
        await world.say(session)
        for number in range(1, 9):
            await world.attempted(session, number)
            world.later(30_000)
        [dead] = await world.until(session, DeliveryStatus.DEAD_LETTER)
        assert (dead.attempts, dead.due_at) == (8, None)
        there.respond = answering(200)
        again = await world.deliveries.redeliver(world.organisation.id, session.id, dead.id)
        assert (again.id, again.status) == (dead.id, DeliveryStatus.PENDING)
        [delivered] = await world.until(session, DeliveryStatus.DELIVERED)
    assert (delivered.id, delivered.attempts) == (dead.id, 9)
    assert len({each.headers["webhook-id"] for each in there.received}) == 1


async def test_one_that_was_delivered_can_be_sent_again(world: World) -> None:
    async with receiver() as there, world.sending():
        session = await world.session()
        await world.registered(session, there.url)
        await world.say(session)
        [delivered] = await world.until(session, DeliveryStatus.DELIVERED)
        await world.deliveries.redeliver(world.organisation.id, session.id, delivered.id)
        await there.wait_for(2)


async def test_a_receiver_that_is_gone_gets_no_second_attempt_and_a_redirect_is_a_failure(
    world: World,
) -> None:
    async with receiver(answering(410)) as gone, receiver() as trap, world.sending():
        session = await world.session()
        await world.registered(session, gone.url)
        await world.say(session)
        [dead] = await world.until(session, DeliveryStatus.DEAD_LETTER)
        assert dead.attempts == 1
        other = await world.session()
        async with receiver(answering(307, Location=trap.url)) as there:
            await world.registered(other, there.url)
            await world.say(other)
            [failed] = await world.until(other, DeliveryStatus.FAILED)
    assert failed.error == "the receiver answered 307; redirects are not followed"
    assert trap.connections == 0


async def test_a_destination_that_is_switched_off_gets_nothing_and_goes_on_where_it_was(
    world: World,
) -> None:
    async with receiver() as there, world.sending():
        session = await world.session()
        destination = await world.registered(session, there.url)
        await world.change(destination, enabled=False)
        await world.say(session, "while it is off")
        await world.change(destination, enabled=True)
        await world.say(session, "after")
        [received] = await there.wait_for(1)
        await world.until(session, DeliveryStatus.DELIVERED)
    assert json.loads(received.body)["event"]["body"]["text"] == "after"
    assert len(there.received) == 1


async def test_an_attempt_says_nothing_of_the_one_that_was_asked_for_meanwhile(world: World) -> None:
    mail = SessionMail(world.tables, world.keyring, world.clock)
    session = await world.session()
    await world.registered(session, "http://127.0.0.1:9/")
    await world.say(session)

    async def taken() -> Delivery:
        world.clock.advance(1)
        now = world.clock.now()
        [delivery] = await mail.claim(now, now + timedelta(seconds=60), limit=9, each=9)
        return delivery

    first = await taken()
    await world.deliveries.redeliver(world.organisation.id, session.id, first.id)
    second = await taken()
    await mail.settle(first, Attempt(world.clock.now(), 500, "not now"), 0.5)
    assert await world.list(session) == [second]
    await mail.settle(second, Attempt(world.clock.now(), 200, None), 0.5)
    [delivered] = await world.list(session)
    assert (delivered.status, delivered.due_at) == (DeliveryStatus.DELIVERED, None)
