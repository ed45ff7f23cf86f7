"""Images, the files after their first steps, and named snapshots."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "images",
        sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), primary_key=True),
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("content_hash", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("shown_manifest", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("last_used_at", sa.DateTime, nullable=False),
        sa.Column("snapshot_id", sa.String),
    )
    op.create_table(
        "image_prefixes",
        sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), primary_key=True),
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("snapshot_id", sa.String, nullable=False),
        sa.Column("last_used_at", sa.DateTime, nullable=False),
    )
    op.create_table(
        "named_snapshots",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("content_hash", sa.String, nullable=False),
        sa.Column("shown_manifest", sa.Text, nullable=False),
        sa.Column("manifest", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("last_used_at", sa.DateTime),
        sa.Column("snapshot_id", sa.String),
        sa.Column("is_public", sa.Boolean, nullable=False),
        sa.Column("error", sa.Text),
        sa.UniqueConstraint("org_id", "name", name="uq_named_snapshots_name"),
    )
