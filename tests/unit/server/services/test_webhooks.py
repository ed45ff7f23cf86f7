"""Webhooks of sandboxes: whose secrets sign, for how long, and that nobody reads them in the database."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from opencomputer.server.domain.errors import SecretUnreadable
from opencomputer.server.services.hints import Bell
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

    def services(self, keyring: FileKeyring | None = None) -> WebhookServices:
        storage = LifecycleWebhookStorage(webhook_tables(self.database, self.bell.ring), self.bell)
        sender, sandboxes = HttpWebhookSender(allow_private=True), SqlSandboxStore(self.database)
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
