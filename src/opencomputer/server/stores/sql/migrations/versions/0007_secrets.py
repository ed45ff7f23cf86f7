"""Secret stores, and what sandboxes hold of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _add_columns()
    op.create_table(
        "secret_stores",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("unique_name", sa.String),
        sa.Column("egress_allowlist", sa.JSON, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("updated_at", sa.DateTime, nullable=False),
        sa.Column("deleted_at", sa.DateTime),
        sa.UniqueConstraint("org_id", "unique_name", name="uq_secret_stores_name"),
    )
    op.create_table(
        "secrets",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("store_id", sa.String, sa.ForeignKey("secret_stores.id"), nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("key_version", sa.Integer, nullable=False),
        sa.Column("ciphertext", sa.LargeBinary, nullable=False),
        sa.Column("hosts", sa.JSON, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("updated_at", sa.DateTime, nullable=False),
        sa.Column("deleted_at", sa.DateTime),
        sa.UniqueConstraint("store_id", "name", name="uq_secrets_name"),
    )
    _create_holdings()


def _add_columns() -> None:
    for table in ("sandboxes", "snapshots"):
        for name in ("secret_stores", "egress_allowlist"):
            op.add_column(table, sa.Column(name, sa.JSON, nullable=False, server_default=sa.text("'[]'")))


def _create_holdings() -> None:
    op.create_table(
        "held_stores",
        sa.Column("sandbox_id", sa.String, primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("store_id", sa.String, nullable=False, index=True),
    )
    op.create_table(
        "seals",
        sa.Column("sandbox_id", sa.String, primary_key=True),
        sa.Column("token", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("secret_id", sa.String, index=True),
        sa.Column("inherited", sa.Boolean, nullable=False),
    )
