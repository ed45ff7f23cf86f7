"""Webhooks of sandboxes: whose secrets sign, for how long, and that nobody reads them in the database."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from opencomputer.server.contracts.webhooks import WebhookSender
from opencomputer.server.domain.errors import NotFound, SecretUnreadable
from opencomputer.server.domain.lifecycle_webhooks import Message
from opencomputer.server.domain.webhooks.attempts import Attempt, DeliveryStatus
from opencomputer.server.services.hints import Bell
from opencomputer.server.services.sandboxes.webhook_messages import LifecycleMail
from opencomputer.server.services.sandboxes.webhook_services import (
    LifecycleWebhookStorage,
    WebhookServices,
    webhook_services,
)
from opencomputer.server.services.sandboxes.webhooks import (
    WantedWebhook,
    WebhookChanges,
    signing_secrets,
)
from opencomputer.server.services.secret_keys import forget_unreadable, rotate
from opencomputer.server.stores.keyring.file import FileKeyring
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.organisations import SqlOrganisationStore
from opencomputer.server.stores.sql.sandboxes import SqlSandboxStore
from opencomputer.server.stores.sql.webhooks import webhook_signing_secrets, webhook_tables
from opencomputer.server.webhooks.sender import HttpWebhookSender
from opencomputer.wire.ids import OrgId
from tests.support import rows
from tests.support.hand_clock import HandClock
from tests.support.receivers import SlowCheck

pytestmark = pytest.mark.anyio

ROTATE = WebhookChanges(frozenset(), WantedWebhook(""), rotate_secret=True)
WANTED = WantedWebhook("http://127.0.0.1:9/hook", secret="hush, this is one")


@dataclass
class Desk:
    folder: Path
    database: Database
    keyring: FileKeyring
    org_id: OrgId
    clock: HandClock = field(default_factory=HandClock)
    bell: Bell = field(default_factory=Bell)

    def services(
        self, keyring: FileKeyring | None = None, sender: WebhookSender | None = None
    ) -> WebhookServices:
        storage = LifecycleWebhookStorage(webhook_tables(self.database, self.bell.ring), self.bell)
        sender, sandboxes = sender or HttpWebhookSender(allow_private=True), SqlSandboxStore(self.database)
        return webhook_services(storage, sandboxes, sender, keyring or self.keyring, self.clock)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncGenerator[Desk]:
    database = Database.sqlite(tmp_path / "opencomputer.db")
    await database.open()
    organisation = rows.organisation()
    await SqlOrganisationStore(database).add(organisation)
    yield Desk(tmp_path, database, FileKeyring.open_or_create(tmp_path / "keyring.json"), organisation.id)
    await database.close()


async def test_an_old_secret_signs_for_a_day_beside_the_new_one(desk: Desk) -> None:
    records = desk.services().records
    made = await records.create(desk.org_id, WANTED)
    rotated = await records.update(desk.org_id, made.webhook.id, ROTATE)

    def signing() -> list[str]:
        return [*signing_secrets(rotated.webhook, desk.keyring, desk.clock)]

    assert signing() == [rotated.secret, made.secret]
    desk.clock.advance(24 * 3600 - 1)
    assert signing() == [rotated.secret, made.secret]
    desk.clock.advance(1)
    assert signing() == [rotated.secret]


async def test_secrets_are_encrypted_and_follow_the_keyring(desk: Desk) -> None:
    records = desk.services().records
    made = await records.create(desk.org_id, WANTED)
    assert all(b"hush" not in sealed.data for sealed, _ in made.webhook.secrets)
    rotated = await rotate(desk.keyring, [webhook_signing_secrets(desk.database)])
    assert (rotated.encrypted, rotated.unreadable) == (1, 0)
    assert await records.secret(desk.org_id, made.webhook.id) == made.secret


async def test_one_that_lost_its_secret_is_off_until_it_has_another(desk: Desk) -> None:
    made = await desk.services().records.create(desk.org_id, WANTED)
    other = FileKeyring.open_or_create(desk.folder / "other.json", first_version=9)
    records = desk.services(other).records
    with pytest.raises(SecretUnreadable):
        await records.secret(desk.org_id, made.webhook.id)
    assert await forget_unreadable(other, [webhook_signing_secrets(desk.database)]) == 1
    assert not (await records.get(desk.org_id, made.webhook.id)).enabled
    on = WebhookChanges(frozenset({"enabled"}), WantedWebhook("", enabled=True))
    again = await records.update(desk.org_id, made.webhook.id, on)
    assert again.webhook.enabled
    assert await records.secret(desk.org_id, made.webhook.id) == again.secret


async def test_what_is_changed_while_another_change_is_checked_stays_changed(desk: Desk) -> None:
    quick = desk.services().records
    made = await quick.create(desk.org_id, WANTED)
    told: list[str | None] = []

    async def meanwhile() -> None:
        told.append((await quick.update(desk.org_id, made.webhook.id, ROTATE)).secret)
        off = WebhookChanges(frozenset({"enabled"}), WantedWebhook("", enabled=False))
        await quick.update(desk.org_id, made.webhook.id, off)

    moved = WebhookChanges(frozenset({"url", "name"}), WantedWebhook("http://127.0.0.1:9/new", name="new"))
    await desk.services(sender=SlowCheck(meanwhile)).records.update(desk.org_id, made.webhook.id, moved)
    found = await quick.get(desk.org_id, made.webhook.id)
    assert (found.url, found.name, found.enabled) == ("http://127.0.0.1:9/new", "new", False)
    assert [*signing_secrets(found, desk.keyring, desk.clock)] == [*told, made.secret]


async def test_one_that_is_deleted_while_its_change_is_checked_is_not_there(desk: Desk) -> None:
    quick = desk.services().records
    made = await quick.create(desk.org_id, WANTED)

    async def meanwhile() -> None:
        await quick.delete(desk.org_id, made.webhook.id)

    moved = WebhookChanges(frozenset({"url"}), WantedWebhook("http://127.0.0.1:9/new"))
    with pytest.raises(NotFound):
        await desk.services(sender=SlowCheck(meanwhile)).records.update(desk.org_id, made.webhook.id, moved)


async def test_an_attempt_says_nothing_of_the_one_that_was_asked_for_meanwhile(desk: Desk) -> None:
    services = desk.services()
    there = (await services.records.create(desk.org_id, WANTED)).webhook
    await services.messages.test(desk.org_id, there.id)
    mail = LifecycleMail(webhook_tables(desk.database, desk.bell.ring), desk.keyring, desk.clock)

    async def taken() -> Message:
        desk.clock.advance(1)
        now = desk.clock.now()
        [message] = await mail.claim(now, now + timedelta(seconds=60), limit=9, each=9)
        return message

    first = await taken()
    await services.messages.redeliver(desk.org_id, there.id, first.id)
    second = await taken()
    await mail.settle(first, Attempt(desk.clock.now(), 500, "not now"), 0.5)
    assert await services.messages.list(desk.org_id, there.id) == [second]
    await mail.settle(second, Attempt(desk.clock.now(), 200, None), 0.5)
    [delivered] = await services.messages.list(desk.org_id, there.id)
    assert (delivered.status, delivered.due_at) == (DeliveryStatus.DELIVERED, None)
