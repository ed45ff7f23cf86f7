"""The size of a sandbox: what may change it, and what is being changed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "sandboxes", sa.Column("scaling_locked", sa.Boolean, nullable=False, server_default=sa.false())
    )
    op.add_column("sandboxes", sa.Column("autoscale", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("sandboxes", sa.Column("autoscale_min_mb", sa.Integer))
    op.add_column("sandboxes", sa.Column("autoscale_max_mb", sa.Integer))
    op.add_column("sandboxes", sa.Column("autoscale_up_after", sa.DateTime))
    op.add_column("sandboxes", sa.Column("autoscale_down_after", sa.DateTime))
    op.add_column("sandboxes", sa.Column("resize_mb", sa.Integer))
