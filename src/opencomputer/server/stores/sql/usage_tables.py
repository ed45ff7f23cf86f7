"""Tables of usage. Moments are seconds since 1970: sums over whole seconds are exact."""

from __future__ import annotations

import sqlalchemy as sa

from opencomputer.server.stores.sql.tables import metadata

_OPEN = sa.text("end_second IS NULL")

usage_intervals = sa.Table(
    "usage_intervals",
    metadata,
    sa.Column("position", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("org_id", sa.String, nullable=False),
    sa.Column("sandbox_id", sa.String, sa.ForeignKey("sandboxes.id"), nullable=False),
    sa.Column("meter", sa.String, nullable=False),
    sa.Column("megabytes", sa.Integer, nullable=False),
    sa.Column("begin_second", sa.BigInteger, nullable=False),
    sa.Column("end_second", sa.BigInteger),
    # No sandbox can be counted twice at a time.
    sa.Index(
        "uq_usage_intervals_open",
        "sandbox_id",
        "meter",
        unique=True,
        sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    ),
    sa.Index("ix_usage_intervals_sandbox", "sandbox_id", "begin_second"),
    sa.Index("ix_usage_intervals_org", "org_id", "end_second"),
)

# Written in batches, every minute: nothing but what is needed to find those of one sandbox.
usage_samples = sa.Table(
    "usage_samples",
    metadata,
    sa.Column("sandbox_id", sa.String, primary_key=True),
    sa.Column("second", sa.BigInteger, primary_key=True),
    sa.Column("kib", sa.BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

usage_heartbeat = sa.Table(
    "usage_heartbeat",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("second", sa.BigInteger, nullable=False),
)
"""One row: when the node was there last."""
