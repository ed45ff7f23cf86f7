"""Tables of where sandboxes' events are sent, and of each event on its way there."""

from __future__ import annotations

import sqlalchemy as sa

from opencomputer.server.stores.sql.tables import Texts, UtcDateTime, metadata

webhooks = sa.Table(
    "webhooks",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
    sa.Column("name", sa.String),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("types", Texts, nullable=False),
    sa.Column("sandbox_id", sa.String, sa.ForeignKey("sandboxes.id"), index=True),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("headers", sa.JSON, nullable=False),
    sa.Column("secrets", sa.JSON, nullable=False),
    sa.Column("idempotency_key", sa.String),
    sa.Column("request_hash", sa.String),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("updated_at", UtcDateTime, nullable=False),
    sa.UniqueConstraint("org_id", "idempotency_key", name="uq_webhooks_idempotency"),
    sa.Index("ix_webhooks_org", "org_id", "created_at", "id"),
)

webhook_messages = sa.Table(
    "webhook_messages",
    metadata,
    sa.Column("position", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("id", sa.String, nullable=False, unique=True),
    sa.Column("destination_id", sa.String, sa.ForeignKey("webhooks.id"), nullable=False),
    sa.Column("org_id", sa.String, nullable=False),
    sa.Column("sandbox_id", sa.String, nullable=False),
    sa.Column("event_id", sa.String, nullable=False),
    sa.Column("type", sa.String, nullable=False),
    sa.Column("happened_at", UtcDateTime, nullable=False),
    sa.Column("data", sa.JSON, nullable=False),
    sa.Column("status", sa.String, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("budget", sa.Integer, nullable=False),
    sa.Column("due_at", UtcDateTime, index=True),
    sa.Column("last_attempt_at", UtcDateTime),
    sa.Column("response_code", sa.Integer),
    sa.Column("error", sa.Text),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("updated_at", UtcDateTime, nullable=False),
    sa.Index("ix_webhook_messages_line", "destination_id", "sandbox_id", "position"),
    sa.Index("ix_webhook_messages_newest", "destination_id", "position"),
    sqlite_autoincrement=True,
)
"""`due_at` of one that is being delivered: until when it is held. Null: nothing is to be done any more."""
