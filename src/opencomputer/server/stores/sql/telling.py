"""Writing what is told of sandboxes, for those who listen, in the transaction of what it tells of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from opencomputer.server.domain.lifecycle_events import LifecycleEvent
from opencomputer.server.domain.lifecycle_webhooks import Message, Webhook, message_of, wants
from opencomputer.server.stores.sql.signing_secrets import sealed_body, sealed_of
from opencomputer.server.stores.sql.webhook_tables import webhook_messages, webhooks
from opencomputer.wire.ids import OrgId, SandboxId, WebhookId

Ring = Callable[[], None]
"""Called after something was written that somebody may send."""


def unheard() -> None:
    """Nobody of this process sends anything."""


def listens() -> sa.ColumnElement[bool]:
    """Of a row of `sandboxes`: whether anybody is told of it. Costs its statement next to nothing."""
    # Written out: SQLite returns columns without the names of their tables, and inside they would be others.
    org_id, sandbox_id = (sa.literal_column(f"sandboxes.{name}", sa.String) for name in ("org_id", "id"))
    return sa.select(webhooks.c.id).where(webhooks.c.org_id == org_id, _concerns(sandbox_id)).exists()


async def tell(connection: AsyncConnection, events: Sequence[LifecycleEvent]) -> bool:
    """Write them for all who want them; they are of one sandbox. False: nobody does."""
    if not events:
        return False
    first = events[0]
    # Held, so that nobody removes a destination between this and what is written for it.
    query = (
        sa.select(webhooks)
        .where(webhooks.c.org_id == first.org_id, _concerns(first.sandbox_id))
        .order_by(webhooks.c.created_at, webhooks.c.id)
        .with_for_update(read=True, key_share=True)
    )
    listening = [webhook_of(row) for row in await connection.execute(query)]
    messages = [
        message_of(webhook, event) for event in events for webhook in listening if wants(webhook, event.type)
    ]
    return await write_messages(connection, messages)


async def write_messages(connection: AsyncConnection, messages: Sequence[Message]) -> bool:
    """What is there already is not written again. False: there is none."""
    if messages:
        dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
        statement = dialect.insert(webhook_messages).on_conflict_do_nothing(index_elements=["id"])
        await connection.execute(statement, [message_values(each) for each in messages])
    return bool(messages)


def _concerns(sandbox_id: SandboxId | sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    return webhooks.c.sandbox_id.is_(None) | (webhooks.c.sandbox_id == sandbox_id)


def message_values(message: Message) -> dict[str, Any]:
    event = message.event
    return {
        "id": message.id,
        "destination_id": message.destination_id,
        "org_id": event.org_id,
        "sandbox_id": message.sandbox_id,
        "event_id": event.id,
        "type": event.type,
        "happened_at": event.at,
        "data": dict(event.data),
        "created_at": message.created_at,
        **progress_values(message),
    }


def progress_values(message: Message) -> dict[str, Any]:
    """What changes about a message."""
    names = ("status", "attempts", "budget", "due_at", "last_attempt_at", "response_code", "error")
    return {name: getattr(message, name) for name in (*names, "updated_at")}


def webhook_values(webhook: Webhook) -> dict[str, Any]:
    return {
        "id": webhook.id,
        "org_id": webhook.org_id,
        "name": webhook.name,
        "url": webhook.url,
        "types": webhook.types,
        "sandbox_id": webhook.sandbox_id,
        "enabled": webhook.enabled,
        "headers": dict(webhook.headers),
        "secrets": sealed_body(webhook.secrets),
        "idempotency_key": webhook.idempotency_key,
        "request_hash": webhook.request_hash,
        "created_at": webhook.created_at,
        "updated_at": webhook.updated_at,
    }


def webhook_of(row: sa.Row[Any]) -> Webhook:
    return Webhook(
        id=WebhookId(row.id),
        org_id=OrgId(row.org_id),
        name=row.name,
        url=row.url,
        types=row.types,
        sandbox_id=None if row.sandbox_id is None else SandboxId(row.sandbox_id),
        enabled=row.enabled,
        headers=row.headers,
        secrets=sealed_of(row.secrets),
        idempotency_key=row.idempotency_key,
        request_hash=row.request_hash,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
