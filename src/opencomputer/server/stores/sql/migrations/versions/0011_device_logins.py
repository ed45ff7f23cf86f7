"""Logins that wait for somebody to approve them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "device_logins",
        sa.Column("device_hash", sa.String, primary_key=True),
        sa.Column("user_code_hash", sa.String, nullable=False, unique=True),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("requested_from", sa.String, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("expires_at", sa.DateTime, nullable=False),
        sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id")),
        sa.Column("approved_by", sa.String, sa.ForeignKey("api_keys.id")),
    )
