"""The tables. The migrations make them; a test holds the two together."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from opencomputer.server.domain.layers import LayerId


class UtcDateTime(sa.TypeDecorator[datetime]):
    """Aware UTC times on every database: SQLite itself would forget the zone."""

    impl = sa.DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC)


class LayerIds(sa.TypeDecorator[tuple[LayerId, ...]]):
    """Layers, bottom first: a list in JSON."""

    impl = sa.JSON
    cache_ok = True

    def process_result_value(self, value: list[str] | None, dialect: Any) -> tuple[LayerId, ...] | None:
        return None if value is None else tuple(LayerId(each) for each in value)


class Texts(sa.TypeDecorator[tuple[str, ...]]):
    """Texts in their order: a list in JSON."""

    impl = sa.JSON
    cache_ok = True

    def process_result_value(self, value: list[str] | None, dialect: Any) -> tuple[str, ...] | None:
        return None if value is None else tuple(value)


# Defaults are for rows that were there before their column was.
_ZERO = sa.text("0")
_NO_LAYERS = sa.text("'[]'")
_NO_TEXTS = sa.text("'[]'")

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
    sa.Column("layers", LayerIds, nullable=False, server_default=_NO_LAYERS),
    sa.Column("origin_layers", LayerIds, nullable=False, server_default=_NO_LAYERS),
    sa.Column("workdir", sa.String),
    sa.Column("generation", sa.Integer, nullable=False, server_default=_ZERO),
    sa.Column("from_checkpoint", sa.String, index=True),
    sa.Column("forked_from", sa.String),
    sa.Column("hibernation", sa.String),
    sa.Column("patch_source", sa.String, index=True),
    sa.Column("patch_position", sa.Integer, nullable=False, server_default=_ZERO),
    sa.Column("patch_error", sa.Text),
    sa.Column("due_at", UtcDateTime),
    sa.Column("hibernate_failures", sa.Integer, nullable=False, server_default=_ZERO),
    sa.Column("last_hibernate_error", sa.Text),
    sa.Column("recovered", sa.Integer),
    sa.Column("file_url_epoch", sa.String),
    sa.Column("scaling_locked", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("autoscale", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("autoscale_min_mb", sa.Integer),
    sa.Column("autoscale_max_mb", sa.Integer),
    sa.Column("autoscale_up_after", UtcDateTime),
    sa.Column("autoscale_down_after", UtcDateTime),
    sa.Column("resize_mb", sa.Integer),
    sa.Column("preview_token_hash", sa.String),
    sa.Column("secret_stores", Texts, nullable=False, server_default=_NO_TEXTS),
    sa.Column("egress_allowlist", Texts, nullable=False, server_default=_NO_TEXTS),
    sa.UniqueConstraint("org_id", "idempotency_key", name="uq_sandboxes_idempotency"),
    sa.Index("ix_sandboxes_org_newest", "org_id", "created_at", "id"),
    sa.Index("ix_sandboxes_due", "state", "due_at"),
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
    sa.Column("record", sa.JSON(none_as_null=True)),
    sa.Column("sandbox_id", sa.String),
    sa.Column("layers", LayerIds, nullable=False, server_default=_NO_LAYERS),
)

snapshots = sa.Table(
    "snapshots",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
    sa.Column("sandbox_id", sa.String),
    sa.Column("purpose", sa.String, nullable=False),
    sa.Column("kind", sa.String, nullable=False),
    sa.Column("state", sa.String, nullable=False, index=True),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("unique_name", sa.String),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("ready_at", UtcDateTime),
    sa.Column("failed_at", UtcDateTime),
    sa.Column("error", sa.Text),
    sa.Column("is_public", sa.Boolean, nullable=False),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
    sa.Column("template", sa.String, nullable=False),
    sa.Column("template_hash", sa.String, nullable=False),
    sa.Column("memory_mb", sa.Integer, nullable=False),
    sa.Column("cpu_count", sa.Integer, nullable=False),
    sa.Column("disk_mb", sa.Integer, nullable=False),
    sa.Column("layers", LayerIds, nullable=False),
    sa.Column("environment", sa.JSON, nullable=False),
    sa.Column("metadata", sa.JSON, nullable=False),
    sa.Column("workdir", sa.String),
    sa.Column("network_enabled", sa.Boolean, nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("patch_source", sa.String),
    sa.Column("patch_position", sa.Integer, nullable=False),
    sa.Column("memory_id", sa.String),
    sa.Column("memory_image_version", sa.String),
    sa.Column("memory_guest_token", sa.String),
    sa.Column("patches_ever", sa.Integer, nullable=False, server_default=_ZERO),
    sa.Column("secret_stores", Texts, nullable=False, server_default=_NO_TEXTS),
    sa.Column("egress_allowlist", Texts, nullable=False, server_default=_NO_TEXTS),
    sa.UniqueConstraint("sandbox_id", "unique_name", name="uq_snapshots_name"),
)
"""`unique_name` is the name of a checkpoint until it fails, and null for everything else.

`patches_ever` counts the patches a checkpoint had, removed ones included.
"""

patches = sa.Table(
    "patches",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("checkpoint_id", sa.String, sa.ForeignKey("snapshots.id"), nullable=False),
    sa.Column("sequence", sa.Integer, nullable=False),
    sa.Column("script", sa.Text, nullable=False),
    sa.Column("description", sa.Text),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.UniqueConstraint("checkpoint_id", "sequence", name="uq_patches_sequence"),
)

# Written often and in batches, and read by sandbox: no foreign keys, one index. Numbers are never used twice,
# because readers go on after the last they have seen.
egress_events = sa.Table(
    "egress_events",
    metadata,
    sa.Column("position", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("at", UtcDateTime, nullable=False, index=True),
    sa.Column("org_id", sa.String, nullable=False),
    sa.Column("sandbox_id", sa.String, nullable=False),
    sa.Column("protocol", sa.String, nullable=False),
    sa.Column("host", sa.String, nullable=False),
    sa.Column("port", sa.Integer, nullable=False),
    sa.Column("decision", sa.String, nullable=False),
    sa.Column("reason", sa.String),
    sa.Column("address", sa.String),
    sa.Column("intercepted", sa.Boolean, nullable=False),
    sa.Column("secrets", sa.JSON, nullable=False),
    sa.Column("withheld", sa.JSON, nullable=False),
    sa.Column("bytes_out", sa.BigInteger, nullable=False),
    sa.Column("bytes_in", sa.BigInteger, nullable=False),
    sa.Column("lost", sa.Integer, nullable=False),
    sa.Index("egress_events_of_sandbox", "sandbox_id", "position"),
    sqlite_autoincrement=True,
)
