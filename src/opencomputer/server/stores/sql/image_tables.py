"""The tables of images and named snapshots."""

from __future__ import annotations

import sqlalchemy as sa

from opencomputer.server.stores.sql.tables import UtcDateTime, metadata

images = sa.Table(
    "images",
    metadata,
    sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), primary_key=True),
    sa.Column("key", sa.String, primary_key=True),
    sa.Column("content_hash", sa.String, nullable=False),
    sa.Column("state", sa.String, nullable=False),
    sa.Column("shown_manifest", sa.Text, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("last_used_at", UtcDateTime, nullable=False),
    sa.Column("snapshot_id", sa.String),
)

image_prefixes = sa.Table(
    "image_prefixes",
    metadata,
    sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), primary_key=True),
    sa.Column("key", sa.String, primary_key=True),
    sa.Column("snapshot_id", sa.String, nullable=False),
    sa.Column("last_used_at", UtcDateTime, nullable=False),
)

named_snapshots = sa.Table(
    "named_snapshots",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("state", sa.String, nullable=False),
    sa.Column("content_hash", sa.String, nullable=False),
    sa.Column("shown_manifest", sa.Text, nullable=False),
    # With the content of files, and therefore compressed, and read only to build again.
    sa.Column("manifest", sa.LargeBinary, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("last_used_at", UtcDateTime),
    sa.Column("snapshot_id", sa.String),
    sa.Column("is_public", sa.Boolean, nullable=False),
    sa.Column("error", sa.Text),
    sa.UniqueConstraint("org_id", "name", name="uq_named_snapshots_name"),
)
