"""What sandboxes use. Of those that are there already it counts from now on: nobody wrote down the rest."""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0012"
branch_labels = None
depends_on = None

_OPEN = sa.text("end_second IS NULL")
_BEGIN = """
INSERT INTO usage_intervals (org_id, sandbox_id, meter, megabytes, begin_second)
SELECT org_id, id, '{meter}', {megabytes}, {now} FROM sandboxes WHERE {which} ORDER BY id
"""


def upgrade() -> None:
    op.create_table(
        "usage_intervals",
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("org_id", sa.String, nullable=False),
        sa.Column("sandbox_id", sa.String, sa.ForeignKey("sandboxes.id"), nullable=False),
        sa.Column("meter", sa.String, nullable=False),
        sa.Column("megabytes", sa.Integer, nullable=False),
        sa.Column("begin_second", sa.BigInteger, nullable=False),
        sa.Column("end_second", sa.BigInteger),
    )
    op.create_index(
        "uq_usage_intervals_open",
        "usage_intervals",
        ["sandbox_id", "meter"],
        unique=True,
        sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    )
    op.create_index("ix_usage_intervals_sandbox", "usage_intervals", ["sandbox_id", "begin_second"])
    op.create_index("ix_usage_intervals_org", "usage_intervals", ["org_id", "end_second"])
    op.create_table(
        "usage_samples",
        sa.Column("sandbox_id", sa.String, primary_key=True),
        sa.Column("second", sa.BigInteger, primary_key=True),
        sa.Column("kib", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "usage_heartbeat",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("second", sa.BigInteger, nullable=False),
    )
    _count_what_is_there(int(time.time()))


def _count_what_is_there(now: int) -> None:
    memory = "state IN ('running', 'restoring', 'rebooting')"
    disk = "state NOT IN ('creating', 'stopped', 'failed') AND disk_mb > 20480"
    op.execute(_BEGIN.format(meter="memory", megabytes="memory_mb", now=now, which=memory))
    op.execute(_BEGIN.format(meter="disk", megabytes="disk_mb - 20480", now=now, which=disk))
