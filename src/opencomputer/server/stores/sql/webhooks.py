"""Destinations of sandboxes' events, and what is on its way to them, in SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from opencomputer.server.contracts.lifecycle_webhooks import WebhookTables
from opencomputer.server.domain.errors import Conflict
from opencomputer.server.domain.lifecycle_events import LifecycleEvent
from opencomputer.server.domain.lifecycle_webhooks import (
    SWITCHED_OFF,
    Message,
    Webhook,
    WebhookSecretPlace,
    message_of,
)
from opencomputer.server.domain.sandbox import SandboxState
from opencomputer.server.domain.webhooks.attempts import DeliveryStatus
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.outbox import Outbox
from opencomputer.server.stores.sql.signing_secrets import SqlSigningSecrets
from opencomputer.server.stores.sql.tables import organisations, sandboxes
from opencomputer.server.stores.sql.telling import progress_values, webhook_of, webhook_values, write_messages
from opencomputer.server.stores.sql.webhook_tables import webhook_messages, webhooks
from opencomputer.wire.ids import EventId, MessageId, OrgId, SandboxId, WebhookId

_OUTBOX = Outbox(webhook_messages, webhooks, "position", ("destination_id", "sandbox_id"))
_NEVER_CHANGED = {"id", "org_id", "sandbox_id", "idempotency_key", "request_hash", "created_at"}
_ON_ITS_WAY = [DeliveryStatus.PENDING, DeliveryStatus.DELIVERING, DeliveryStatus.FAILED]
_AT_ONCE = 100
"""So that others get their turn to write in between, and no statement has too many values."""


class SqlWebhookStore:
    """Implements WebhookStore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, webhook: Webhook, *, most: int) -> None:
        if webhook.sandbox_id is None:
            kind = (webhooks.c.org_id == webhook.org_id) & webhooks.c.sandbox_id.is_(None)
        else:
            kind = webhooks.c.sandbox_id == webhook.sandbox_id
        count = sa.select(sa.func.count()).select_from(webhooks).where(kind)
        try:
            async with self._database.write() as connection:
                # Two that count at once would both find room.
                mine = sa.select(organisations.c.id).where(organisations.c.id == webhook.org_id)
                await connection.execute(mine.with_for_update(key_share=True))
                if (await connection.execute(count)).scalar_one() >= most:
                    raise Conflict(f"there are {most} webhooks already; delete some")
                await connection.execute(webhooks.insert().values(webhook_values(webhook)))
        except IntegrityError as error:
            raise Conflict("this idempotency key is in use") from error

    async def get(self, org_id: OrgId, webhook_id: WebhookId) -> Webhook | None:
        return await self._first(_is(org_id, webhook_id))

    async def by_idempotency_key(self, org_id: OrgId, key: str) -> Webhook | None:
        return await self._first((webhooks.c.org_id == org_id) & (webhooks.c.idempotency_key == key))

    async def _first(self, condition: sa.ColumnElement[bool]) -> Webhook | None:
        row = await self._database.first(sa.select(webhooks).where(condition))
        return None if row is None else webhook_of(row)

    async def list(self, org_id: OrgId) -> Sequence[Webhook]:
        query = sa.select(webhooks).where(webhooks.c.org_id == org_id)
        rows = await self._database.rows(query.order_by(webhooks.c.created_at, webhooks.c.id))
        return [webhook_of(row) for row in rows]

    async def change(
        self, org_id: OrgId, webhook_id: WebhookId, decide: Callable[[Webhook], Webhook]
    ) -> Webhook | None:
        mine = _is(org_id, webhook_id)
        async with self._database.write() as connection:
            row = (await connection.execute(sa.select(webhooks).where(mine).with_for_update())).first()
            if row is None:
                return None
            after = decide(webhook_of(row))
            values = webhook_values(after)
            changing = {name: value for name, value in values.items() if name not in _NEVER_CHANGED}
            await connection.execute(webhooks.update().where(mine).values(changing))
            if not after.enabled:
                await _give_up(connection, webhook_id, after.updated_at)
            return after

    async def delete(self, org_id: OrgId, webhook_id: WebhookId) -> bool:
        mine = _is(org_id, webhook_id)
        async with self._database.write() as connection:
            # Who tells of something meanwhile holds the row: see `tell`.
            found = await connection.execute(sa.select(webhooks.c.id).where(mine).with_for_update())
            if found.first() is None:
                return False
            await _remove(connection, [webhook_id])
            return True


class SqlMessageStore:
    """Implements MessageStore. `ring` is called when something may be due."""

    def __init__(self, database: Database, ring: Callable[[], None]) -> None:
        self._database = database
        self._ring = ring

    async def add(self, webhook: Webhook, event: LifecycleEvent) -> Message | None:
        message = message_of(webhook, event)
        mine = sa.select(webhooks.c.id).where(_is(webhook.org_id, webhook.id), webhooks.c.enabled.is_(True))
        async with self._database.write() as connection:
            held = mine.with_for_update(read=True, key_share=True)
            if (await connection.execute(held)).first() is None:
                return None
            await write_messages(connection, [message])
        self._ring()
        return message

    async def get(self, webhook_id: WebhookId, message_id: MessageId) -> Message | None:
        mine = (webhook_messages.c.destination_id == webhook_id) & (webhook_messages.c.id == message_id)
        row = await self._database.first(sa.select(webhook_messages).where(mine))
        return None if row is None else _message(row)

    async def list(self, webhook_id: WebhookId, *, limit: int) -> Sequence[Message]:
        query = sa.select(webhook_messages).where(webhook_messages.c.destination_id == webhook_id)
        rows = await self._database.rows(query.order_by(webhook_messages.c.position.desc()).limit(limit))
        return [_message(row) for row in rows]

    async def claim(self, now: datetime, until: datetime, *, limit: int, each: int) -> Sequence[Message]:
        due = await _OUTBOX.claim(self._database, now, until, limit=limit, each=each)
        held = {"status": DeliveryStatus.DELIVERING, "due_at": until, "updated_at": now}
        return [replace(_message(row), **held) for row in due]

    async def settle(self, held: Message, after: Message) -> None:
        await _OUTBOX.settle(self._database, held, progress_values(after))
        self._ring()

    async def redeliver(self, message_id: MessageId, budget: int, at: datetime) -> bool:
        again = {"status": DeliveryStatus.PENDING, "due_at": at, "budget": budget, "updated_at": at}
        open_to_it = sa.select(webhooks.c.id).where(webhooks.c.enabled.is_(True))
        table = webhook_messages.c
        mine = (table.id == message_id) & table.destination_id.in_(open_to_it)
        statement = webhook_messages.update().where(mine).values(again | {"error": None})
        found = await self._database.run(statement) > 0
        self._ring()
        return found

    async def next_due(self) -> datetime | None:
        return await _OUTBOX.next_due(self._database)

    async def sweep(self, before: datetime, *, keep: int) -> int:
        table = webhook_messages.c
        newer = sa.func.row_number().over(partition_by=table.destination_id, order_by=table.position.desc())
        ended = sa.select(table.position, table.created_at, newer.label("place"))
        ranked = ended.where(table.due_at.is_(None)).subquery()
        old = (ranked.c.created_at < before) | (ranked.c.place > keep)
        chosen = sa.select(ranked.c.position).where(old)
        return await self._database.run(webhook_messages.delete().where(table.position.in_(chosen)))

    async def forget_stopped(self, before: datetime) -> int:
        some = (
            sa.select(webhooks.c.id)
            .join(sandboxes, sandboxes.c.id == webhooks.c.sandbox_id)
            .where(sandboxes.c.state == SandboxState.STOPPED, sandboxes.c.stopped_at < before)
            .limit(_AT_ONCE)
        )
        forgotten = 0
        while True:
            async with self._database.write() as connection:
                over = [WebhookId(row.id) for row in await connection.execute(some)]
                await _remove(connection, over)
            forgotten += len(over)
            if len(over) < _AT_ONCE:
                return forgotten


async def add_inline(connection: AsyncConnection, made: Sequence[Webhook]) -> None:
    """Those that come with a new sandbox."""
    if made:
        await connection.execute(webhooks.insert(), [webhook_values(each) for each in made])


async def remove_of_sandbox(connection: AsyncConnection, sandbox_id: SandboxId) -> None:
    """Of one that has never been usable: nothing was told of it."""
    await connection.execute(webhooks.delete().where(webhooks.c.sandbox_id == sandbox_id))


async def _give_up(connection: AsyncConnection, webhook_id: WebhookId, at: datetime) -> None:
    waiting = webhook_messages.c.status.in_(_ON_ITS_WAY) & webhook_messages.c.due_at.is_not(None)
    given_up = {"status": DeliveryStatus.DEAD_LETTER, "due_at": None, "budget": 0, "updated_at": at}
    mine = webhook_messages.c.destination_id == webhook_id
    statement = webhook_messages.update().where(mine, waiting).values(given_up | {"error": SWITCHED_OFF})
    await connection.execute(statement)


async def _remove(connection: AsyncConnection, webhook_ids: Sequence[WebhookId]) -> None:
    await connection.execute(
        webhook_messages.delete().where(webhook_messages.c.destination_id.in_(webhook_ids))
    )
    await connection.execute(webhooks.delete().where(webhooks.c.id.in_(webhook_ids)))


def webhook_tables(database: Database, ring: Callable[[], None]) -> WebhookTables:
    return WebhookTables(SqlWebhookStore(database), SqlMessageStore(database, ring))


def webhook_signing_secrets(database: Database) -> SqlSigningSecrets:
    """The secrets of all destinations of sandboxes' events."""
    return SqlSigningSecrets(database, webhooks, _place_of)


def _place_of(row: sa.Row[Any]) -> WebhookSecretPlace:
    return WebhookSecretPlace(OrgId(row.org_id), WebhookId(row.id))


def _is(org_id: OrgId, webhook_id: WebhookId) -> sa.ColumnElement[bool]:
    return (webhooks.c.org_id == org_id) & (webhooks.c.id == webhook_id)


def _message(row: sa.Row[Any]) -> Message:
    event_id, sandbox_id = EventId(row.event_id), SandboxId(row.sandbox_id)
    return Message(
        id=MessageId(row.id),
        destination_id=WebhookId(row.destination_id),
        event_id=event_id,
        sandbox_id=sandbox_id,
        event=LifecycleEvent(event_id, row.type, row.happened_at, OrgId(row.org_id), sandbox_id, row.data),
        status=DeliveryStatus(row.status),
        attempts=row.attempts,
        budget=row.budget,
        due_at=row.due_at,
        last_attempt_at=row.last_attempt_at,
        response_code=row.response_code,
        error=row.error,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
