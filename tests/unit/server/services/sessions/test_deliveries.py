"""Webhooks from event to receiver: signed, in order, tried again, and never lost when a server dies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from opencomputer.sdk.durable.webhooks import WebhookVerificationError, verify_webhook
from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sessions.destinations import (
    Delivery,
    DeliveryFilter,
    DeliveryStatus,
    Destination,
)
from opencomputer.server.domain.sessions.errors import DestinationForbidden
from opencomputer.server.domain.sessions.events import Level
from opencomputer.server.domain.sessions.session import Session
from opencomputer.server.services.secret_keys import forget_unreadable, rotate
from opencomputer.server.services.sessions.deliveries import Deliveries, DeliveryKeeper, Postage
from opencomputer.server.services.sessions.destinations import (
    DestinationChanges,
    Destinations,
    WantedDestination,
)
from opencomputer.server.services.sessions.signals import ProcessSignals
from opencomputer.server.stores.keyring.file import FileKeyring
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.organisations import SqlOrganisationStore
from opencomputer.server.stores.sql.sessions.signing_secrets import SqlSigningSecrets
from opencomputer.server.stores.sql.sessions.stores import session_tables
from opencomputer.server.webhooks.sender import HttpWebhookSender
from tests.support import rows
from tests.support import session_rows as new
from tests.support.hand_clock import HandClock
from tests.support.receivers import answering, hang_up, receiver, silence

pytestmark = pytest.mark.anyio

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


@pytest.fixture
def anyio_backend() -> str:
    """Real receivers take real time."""
    return "asyncio"


@dataclass
class World:
    """A server that sends webhooks; `sending` is its life, of which there may be several."""

    database: Database
    keyring: FileKeyring
    clock: HandClock = field(default_factory=HandClock)
    signals: ProcessSignals = field(default_factory=ProcessSignals)
    sender: HttpWebhookSender = field(default_factory=lambda: HttpWebhookSender(allow_private=True))

    def __post_init__(self) -> None:
        self.organisation = rows.organisation()
        self.tables = session_tables(self.database, self.signals)
        self.destinations = Destinations(self.tables, self.sender, self.keyring, self.clock)
        self.deliveries = Deliveries(self.tables, self.clock)

    async def session(self) -> Session:
        metadata = {"someKey": {"other_key": 1}}
        admission = new.admission(self.organisation.id, metadata=metadata)
        return (await self.tables.sessions.admit(admission)).session

    async def say(self, session: Session, text: str = "hi") -> None:
        await self.tables.sessions.accept(session.id, new.message(text), self.clock.now())

    async def registered(self, session: Session, url: str, secret: str | None = SECRET) -> Destination:
        wanted = WantedDestination(url=url, secret=secret)
        return await self.destinations.create(self.organisation.id, session.id, wanted)

    async def change(self, destination: Destination, **values: object) -> Destination:
        wanted = WantedDestination(**{"url": "", **values})  # pyright: ignore[reportArgumentType] # as named
        changes = DestinationChanges(frozenset(values), wanted)
        return await self.destinations.update(
            self.organisation.id, destination.session_id, destination.id, changes
        )

    async def list(self, session: Session) -> list[Delivery]:
        found = await self.deliveries.list(self.organisation.id, session.id, DeliveryFilter(), 100)
        return sorted(found, key=lambda each: each.event_seq)

    async def until(self, session: Session, status: DeliveryStatus, count: int = 1) -> list[Delivery]:
        async with asyncio.timeout(20):
            while True:
                found = [each for each in await self.list(session) if each.status is status]
                if len(found) >= count:
                    return found
                await asyncio.sleep(0.01)

    async def attempted(self, session: Session, times: int) -> None:
        async with asyncio.timeout(20):
            while (await self.list(session))[0].attempts < times:
                await asyncio.sleep(0.01)

    def later(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.signals.delivery()

    @asynccontextmanager
    async def sending(self) -> AsyncGenerator[None]:
        postage = Postage(self.sender, self.keyring, self.signals, lambda: 0.5)
        keeping = asyncio.create_task(DeliveryKeeper(self.tables, postage, self.clock).keep())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    async with AsyncExitStack() as stack:
        database = Database.sqlite(tmp_path / "sessions.db")
        stack.push_async_callback(database.close)
        await database.open()
        world = World(database, FileKeyring.open_or_create(tmp_path / "keyring.json"))
        stack.push_async_callback(world.sender.close)
        await SqlOrganisationStore(database).add(world.organisation)
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


async def test_the_published_verifier_accepts_it(world: World) -> None:
    async with receiver() as there, world.sending():
        world.clock.advance((datetime.now(UTC) - world.clock.now()).total_seconds())
        session = await world.session()
        await world.registered(session, there.url)
        await world.say(session)
        [received] = await there.wait_for(1)
    assert Webhook(SECRET).verify(received.body, dict(received.headers))["sessionId"] == session.id


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


async def test_a_secret_that_is_replaced_goes_on_signing_for_a_day(world: World) -> None:
    async with receiver() as there, world.sending():
        session = await world.session()
        destination = await world.registered(session, there.url)
        await world.change(destination, secret="the new one")
        for count, seconds in ((1, 0), (2, 24 * 3600 + 1)):
            world.clock.advance(seconds)
            await world.say(session)
            await there.wait_for(count)
    first, later = there.received
    times = [int(each.headers["webhook-timestamp"]) for each in there.received]
    for secret in (SECRET, "the new one"):
        verify_webhook(first.body, first.headers, secret, now_seconds=times[0])
    verify_webhook(later.body, later.headers, "the new one", now_seconds=times[1])
    with pytest.raises(WebhookVerificationError):
        verify_webhook(later.body, later.headers, SECRET, now_seconds=times[1])


async def test_without_a_secret_nothing_is_signed(world: World) -> None:
    async with receiver() as there, world.sending():
        session = await world.session()
        destination = await world.registered(session, there.url, secret=None)
        await world.say(session)
        await there.wait_for(1)
        await world.change(destination, secret=SECRET)
        await world.change(destination, secret=None)
        await world.say(session)
        await there.wait_for(2)
    assert all("webhook-signature" not in each.headers for each in there.received)


async def test_secrets_are_encrypted_and_follow_the_keyring(world: World) -> None:
    async with receiver() as there, world.sending():
        session = await world.session()
        destination = await world.registered(session, there.url)
        assert all(SECRET.encode() not in sealed.data for sealed, _ in destination.secrets)
        await world.change(destination, secret="another")
        secrets = SqlSigningSecrets(world.database)
        rotated = await rotate(world.keyring, [secrets])
        assert (rotated.encrypted, rotated.unreadable) == (2, 0)
        assert {value.ciphertext.key_version for value in await secrets.values()} == {2}
        await world.say(session)
        [received] = await there.wait_for(1)
    for secret in (SECRET, "another"):
        verify_webhook(received.body, received.headers, secret, now_seconds=world.clock.now().timestamp())


async def test_nothing_is_sent_unsigned_because_a_key_was_lost(world: World, tmp_path: Path) -> None:
    async with receiver() as there, world.sending():
        session = await world.session()
        destination = await world.registered(session, there.url)
        (tmp_path / "keyring.json").unlink()
        other = FileKeyring.open_or_create(tmp_path / "keyring.json", first_version=9)
        await world.say(session)
        [failed] = await world.until(session, DeliveryStatus.FAILED)
        assert failed.error is not None
        assert "secret" in failed.error
        assert await forget_unreadable(other, [SqlSigningSecrets(world.database)]) == 1
        left = await world.destinations.get(world.organisation.id, session.id, destination.id)
        assert (left.enabled, left.secrets) == (False, ())
    assert there.received == []


async def test_private_targets_are_refused_when_registered_when_changed_and_when_sent_to(
    world: World,
) -> None:
    strict = HttpWebhookSender()
    async with receiver() as there:
        session = await world.session()
        await world.registered(session, there.url)
        world.sender = strict
        careful = Destinations(world.tables, strict, world.keyring, world.clock)
        for url in (there.url, f"https://127.0.0.1:{there.port}/"):
            with pytest.raises(DestinationForbidden):
                await careful.create(world.organisation.id, session.id, WantedDestination(url))
        async with world.sending():
            await world.say(session)
            [failed] = await world.until(session, DeliveryStatus.FAILED)
    await strict.close()
    assert failed.error is not None
    assert "https" in failed.error
    assert there.connections == 0


async def test_others_find_neither_destinations_nor_deliveries(world: World) -> None:
    session = await world.session()
    destination = await world.registered(session, "http://127.0.0.1:9/")
    await world.say(session)
    [delivery] = await world.list(session)
    other = rows.organisation().id
    for call in (
        world.destinations.list(other, session.id),
        world.destinations.get(other, session.id, destination.id),
        world.destinations.delete(other, session.id, destination.id),
        world.deliveries.list(other, session.id, DeliveryFilter(), 10),
        world.deliveries.get(other, session.id, delivery.id),
        world.deliveries.redeliver(other, session.id, delivery.id),
        world.destinations.create(other, session.id, WantedDestination("http://127.0.0.1:9/")),
    ):
        with pytest.raises(NotFound):
            await call


async def test_raw_input_goes_only_to_whom_asked_for_it(world: World) -> None:
    async with receiver() as there, world.sending():
        session = await world.session()
        destination = await world.registered(session, there.url)
        raw = new.message(body={"text": "hi", "raw": {"a": 1}}, level=Level.USER)
        for wanted in (False, True):
            await world.change(destination, include_raw=wanted)
            await world.tables.sessions.accept(session.id, raw, world.clock.now())
            await there.wait_for(1 + wanted)
    bodies = [json.loads(each.body)["event"]["body"] for each in there.received]
    assert bodies == [{"text": "hi"}, {"text": "hi", "raw": {"a": 1}}]
