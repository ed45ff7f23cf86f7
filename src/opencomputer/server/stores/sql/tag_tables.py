"""Tables of tags: one row for each sandbox that ever had some, and one for each tag."""

from __future__ import annotations

import sqlalchemy as sa

from opencomputer.server.stores.sql.tables import UtcDateTime, metadata

tag_sets = sa.Table(
    "tag_sets",
    metadata,
    sa.Column("sandbox_id", sa.String, sa.ForeignKey("sandboxes.id"), primary_key=True),
    sa.Column("updated_at", UtcDateTime, nullable=False),
)

tags = sa.Table(
    "tags",
    metadata,
    sa.Column("sandbox_id", sa.String, sa.ForeignKey("sandboxes.id"), primary_key=True),
    sa.Column("key", sa.String, primary_key=True),
    sa.Column("value", sa.String, nullable=False),
    sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
    sa.Index("ix_tags_org_key", "org_id", "key"),
)
