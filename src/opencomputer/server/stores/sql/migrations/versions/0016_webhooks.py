"""Where events of sandboxes are sent, and each of them on its way; and whose copy a sandbox is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sandboxes", sa.Column("forked_from", sa.String))
    _create_webhooks()
    _create_messages()


def _create_webhooks() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
        sa.Column("name", sa.String),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("types", sa.JSON, nullable=False),
        sa.Column("sandbox_id", sa.String, sa.ForeignKey("sandboxes.id")),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("headers", sa.JSON, nullable=False),
        sa.Column("secrets", sa.JSON, nullable=False),
        sa.Column("idempotency_key", sa.String),
        sa.Column("request_hash", sa.String),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("updated_at", sa.DateTime, nullable=False),
        sa.UniqueConstraint("org_id", "idempotency_key", name="uq_webhooks_idempotency"),
    )
    op.create_index("ix_webhooks_sandbox_id", "webhooks", ["sandbox_id"])
    op.create_index("ix_webhooks_org", "webhooks", ["org_id", "created_at", "id"])


def _create_messages() -> None:
    op.create_table(
        "webhook_messages",
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("destination_id", sa.String, sa.ForeignKey("webhooks.id"), nullable=False),
        sa.Column("org_id", sa.String, nullable=False),
        sa.Column("sandbox_id", sa.String, nullable=False),
        sa.Column("event_id", sa.String, nullable=False),
        sa.Column("type", sa.String, nullable=False),
        sa.Column("happened_at", sa.DateTime, nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("budget", sa.Integer, nullable=False),
        sa.Column("due_at", sa.DateTime),
        sa.Column("last_attempt_at", sa.DateTime),
        sa.Column("response_code", sa.Integer),
        sa.Column("error", sa.Text),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("updated_at", sa.DateTime, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_webhook_messages_due_at", "webhook_messages", ["due_at"])
    op.create_index(
        "ix_webhook_messages_line", "webhook_messages", ["destination_id", "sandbox_id", "position"]
    )
    op.create_index("ix_webhook_messages_newest", "webhook_messages", ["destination_id", "position"])
