"""The table of logins that wait for approval."""

from __future__ import annotations

import sqlalchemy as sa

from opencomputer.server.stores.sql.tables import UtcDateTime, metadata

device_logins = sa.Table(
    "device_logins",
    metadata,
    sa.Column("device_hash", sa.String, primary_key=True),
    sa.Column("user_code_hash", sa.String, nullable=False, unique=True),
    sa.Column("state", sa.String, nullable=False),
    sa.Column("requested_from", sa.String, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
    sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id")),
    sa.Column("approved_by", sa.String, sa.ForeignKey("api_keys.id")),
)
