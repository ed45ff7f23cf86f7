"""Previews: their records, what lets visitors in, and the token that a sandbox's previews ask for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sandboxes", sa.Column("preview_token_hash", sa.String))
    op.create_table(
        "previews",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("sandbox_id", sa.String, sa.ForeignKey("sandboxes.id"), nullable=False),
        sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
        sa.Column("port", sa.Integer, nullable=False),
        sa.Column("domain", sa.String),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.UniqueConstraint("sandbox_id", "port", name="uq_previews_port"),
    )
    op.create_table(
        "preview_grants",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("sandbox_id", sa.String, sa.ForeignKey("sandboxes.id"), nullable=False),
        sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
        sa.Column("port", sa.Integer, nullable=False),
        sa.Column("token_hash", sa.String, nullable=False, unique=True),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("expires_at", sa.DateTime, nullable=False),
    )
    op.create_index("ix_preview_grants_port", "preview_grants", ["sandbox_id", "port"])
