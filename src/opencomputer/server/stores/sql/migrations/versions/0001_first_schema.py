"""Organisations, keys, sandboxes and machines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "organisations",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False, index=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("prefix", sa.String, nullable=False),
        sa.Column("hash", sa.String, nullable=False, unique=True),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("last_used_at", sa.DateTime),
        sa.Column("revoked_at", sa.DateTime),
    )
    op.create_table(
        "sandboxes",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
        sa.Column("state", sa.String, nullable=False, index=True),
        sa.Column("template", sa.String, nullable=False),
        sa.Column("template_hash", sa.String, nullable=False),
        sa.Column("memory_mb", sa.Integer, nullable=False),
        sa.Column("cpu_count", sa.Integer, nullable=False),
        sa.Column("disk_mb", sa.Integer, nullable=False),
        sa.Column("timeout_seconds", sa.Integer, nullable=False),
        sa.Column("environment", sa.JSON, nullable=False),
        sa.Column("metadata", sa.JSON, nullable=False),
        sa.Column("alias", sa.String),
        sa.Column("network_enabled", sa.Boolean, nullable=False),
        sa.Column("machine_id", sa.String),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("started_at", sa.DateTime),
        sa.Column("stopped_at", sa.DateTime),
        sa.Column("stop_reason", sa.String),
        sa.Column("idempotency_key", sa.String),
        sa.Column("request_hash", sa.String),
        sa.UniqueConstraint("org_id", "idempotency_key", name="uq_sandboxes_idempotency"),
    )
    op.create_index("ix_sandboxes_org_newest", "sandboxes", ["org_id", "created_at", "id"])
    op.create_table(
        "machines",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("template_hash", sa.String, nullable=False),
        sa.Column("image_version", sa.String, nullable=False),
        sa.Column("guest_token", sa.String, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("record", sa.JSON),
        sa.Column("sandbox_id", sa.String),
    )
