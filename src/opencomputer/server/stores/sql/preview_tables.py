"""The tables of previews. What is in them ends with its sandbox."""

from __future__ import annotations

import sqlalchemy as sa

from opencomputer.server.stores.sql.tables import UtcDateTime, metadata

previews = sa.Table(
    "previews",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("sandbox_id", sa.String, sa.ForeignKey("sandboxes.id"), nullable=False),
    sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
    sa.Column("port", sa.Integer, nullable=False),
    sa.Column("domain", sa.String),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.UniqueConstraint("sandbox_id", "port", name="uq_previews_port"),
)

grants = sa.Table(
    "preview_grants",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("sandbox_id", sa.String, sa.ForeignKey("sandboxes.id"), nullable=False),
    sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
    sa.Column("port", sa.Integer, nullable=False),
    sa.Column("token_hash", sa.String, nullable=False, unique=True),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.Index("ix_preview_grants_port", "sandbox_id", "port"),
)
