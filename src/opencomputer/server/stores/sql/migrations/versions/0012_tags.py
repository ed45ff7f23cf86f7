"""Tags of sandboxes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tag_sets",
        sa.Column("sandbox_id", sa.String, sa.ForeignKey("sandboxes.id"), primary_key=True),
        sa.Column("updated_at", sa.DateTime, nullable=False),
    )
    op.create_table(
        "tags",
        sa.Column("sandbox_id", sa.String, sa.ForeignKey("sandboxes.id"), primary_key=True),
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("value", sa.String, nullable=False),
        sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
    )
    op.create_index("ix_tags_org_key", "tags", ["org_id", "key"])
