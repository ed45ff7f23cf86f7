"""Destinations: what they sign with, where they may lead, and what they get."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from opencomputer.sdk.durable.webhooks import WebhookVerificationError, verify_webhook
from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sessions.destinations import DeliveryFilter
from opencomputer.server.domain.sessions.errors import DestinationForbidden
from opencomputer.server.domain.sessions.events import Level
from opencomputer.server.domain.webhooks.attempts import DeliveryStatus
from opencomputer.server.services.secret_keys import forget_unreadable, rotate
from opencomputer.server.services.sessions.destinations import (
    DestinationChanges,
    Destinations,
    WantedDestination,
    signing_secrets,
)
from opencomputer.server.stores.keyring.file import FileKeyring
from opencomputer.server.stores.sql.sessions.destinations import session_signing_secrets
from opencomputer.server.webhooks.sender import HttpWebhookSender
from tests.support import rows
from tests.support import session_rows as new
from tests.support.receivers import SlowCheck, receiver
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


async def test_the_published_verifier_accepts_it(world: World) -> None:
    async with receiver() as there, world.sending():
        world.clock.advance((datetime.now(UTC) - world.clock.now()).total_seconds())
        session = await world.session()
        await world.registered(session, there.url)
        await world.say(session)
        [received] = await there.wait_for(1)
    assert Webhook(SECRET).verify(received.body, dict(received.headers))["sessionId"] == session.id


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
        secrets = session_signing_secrets(world.database)
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
        assert await forget_unreadable(other, [session_signing_secrets(world.database)]) == 1
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


async def test_what_is_changed_while_another_change_is_checked_stays_changed(world: World) -> None:
    session = await world.session()
    made = await world.registered(session, "http://127.0.0.1:9/old")

    async def meanwhile() -> None:
        await world.change(made, secret="the new one")
        await world.change(made, enabled=False)

    slow = Destinations(world.tables, SlowCheck(meanwhile), world.keyring, world.clock)
    wanted = WantedDestination("http://127.0.0.1:9/new", include_raw=True)
    moved = DestinationChanges(frozenset({"url", "include_raw"}), wanted)
    await slow.update(world.organisation.id, session.id, made.id, moved)
    found = await world.destinations.get(world.organisation.id, session.id, made.id)
    assert (found.url, found.include_raw, found.enabled) == ("http://127.0.0.1:9/new", True, False)
    assert [*signing_secrets(found, world.keyring, world.clock.now())] == ["the new one", SECRET]
