"""The tables. The migrations make them; a test holds the two together."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa


class UtcDateTime(sa.TypeDecorator[datetime]):
    """Aware UTC times on every database: SQLite itself would forget the zone."""

    impl = sa.DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC)


metadata = sa.MetaData()

organisations = sa.Table(
    "organisations",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
)

api_keys = sa.Table(
    "api_keys",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False, index=True),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("prefix", sa.String, nullable=False),
    sa.Column("hash", sa.String, nullable=False, unique=True),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("last_used_at", UtcDateTime),
    sa.Column("revoked_at", UtcDateTime),
)

sandboxes = sa.Table(
    "sandboxes",
    metadata,
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
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("started_at", UtcDateTime),
    sa.Column("stopped_at", UtcDateTime),
    sa.Column("stop_reason", sa.String),
    sa.Column("idempotency_key", sa.String),
    sa.Column("request_hash", sa.String),
    sa.UniqueConstraint("org_id", "idempotency_key", name="uq_sandboxes_idempotency"),
    sa.Index("ix_sandboxes_org_newest", "org_id", "created_at", "id"),
)

machines = sa.Table(
    "machines",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("state", sa.String, nullable=False),
    sa.Column("template_hash", sa.String, nullable=False),
    sa.Column("image_version", sa.String, nullable=False),
    sa.Column("guest_token", sa.String, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("record", sa.JSON),
    sa.Column("sandbox_id", sa.String),
)
