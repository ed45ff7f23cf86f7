"""However much waits for one receiver, finding out what may be sent is no more work for each."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest
from aiosqlite import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from opencomputer.server.domain.lifecycle_events import LifecycleEvent
from opencomputer.server.domain.lifecycle_webhooks import Message, Webhook, message_of, trial_event
from opencomputer.server.domain.webhooks.attempts import DeliveryStatus
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.organisations import SqlOrganisationStore
from opencomputer.server.stores.sql.outbox import Outbox
from opencomputer.server.stores.sql.telling import webhook_values, write_messages
from opencomputer.server.stores.sql.webhook_tables import webhook_messages, webhooks
from opencomputer.wire.ids import SandboxId
from tests.support import rows

pytestmark = pytest.mark.anyio

_STEPS = 100
_OUTBOX = Outbox(webhook_messages, webhooks, "position", ("destination_id", "sandbox_id"))


def _nothing() -> None:
    pass


class Counting:
    """A database that counts what it does, in hundreds of steps of SQLite's machine."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.steps = 0

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[AsyncConnection]:
        async with self._database.write() as connection:
            raw = cast("Connection", (await connection.get_raw_connection()).driver_connection)
            await raw.set_progress_handler(self._step, _STEPS)
            try:
                yield connection
            finally:
                await raw.set_progress_handler(_nothing, 0)  # which takes it away

    def _step(self) -> None:
        self.steps += 1


async def _work(database: Database) -> int:
    counting = Counting(database)
    now = rows.at(3600)
    claimed = await _OUTBOX.claim(
        cast("Database", counting), now, now + timedelta(seconds=60), limit=128, each=4
    )
    assert len(claimed) <= 4
    return counting.steps


def _message(webhook: Webhook, sandbox: SandboxId, place: int) -> Message:
    event: LifecycleEvent = replace(trial_event(webhook, rows.at(place)), sandbox_id=sandbox)
    return message_of(webhook, event)


def _tried(message: Message) -> Message:
    return replace(message, status=DeliveryStatus.FAILED, attempts=2)


def _backlog(webhook: Webhook, kind: str, count: int) -> list[Message]:
    one = SandboxId("sb-one")
    match kind:
        case "tried before":
            return [_tried(_message(webhook, one, place)) for place in range(count)]
        case "of one sandbox":
            half = count // 2
            tried = [_tried(_message(webhook, one, place)) for place in range(half)]
            return [*tried, *(_message(webhook, one, half + place) for place in range(half))]
        case _:
            return [_message(webhook, SandboxId(f"sb-{place}"), place) for place in range(count)]


@pytest.mark.parametrize("kind", ["tried before", "of one sandbox", "of many sandboxes"])
async def test_the_work_grows_no_faster_than_what_waits(database: Database, kind: str) -> None:
    """Who registers a receiver that never answers must not be able to occupy the database."""
    organisation = rows.organisation()
    await SqlOrganisationStore(database).add(organisation)
    webhook = rows.webhook(organisation.id)
    async with database.write() as connection:
        await connection.execute(webhooks.insert().values(webhook_values(webhook)))

    work: list[int] = []
    for _ in range(2):
        async with database.write() as connection:
            await write_messages(connection, _backlog(webhook, kind, 400))
        work.append(await _work(database))
    assert work[1] < 3 * work[0]
