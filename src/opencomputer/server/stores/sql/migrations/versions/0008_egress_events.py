"""The log of what sandboxes reached and what they were refused."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "egress_events",
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("at", sa.DateTime, nullable=False),
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
        sqlite_autoincrement=True,
    )
    op.create_index("ix_egress_events_at", "egress_events", ["at"])
    op.create_index("egress_events_of_sandbox", "egress_events", ["sandbox_id", "position"])
