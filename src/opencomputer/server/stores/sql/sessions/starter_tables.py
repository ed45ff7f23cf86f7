"""The tables of what starts sessions by itself."""

from __future__ import annotations

import sqlalchemy as sa

from opencomputer.server.stores.sql.tables import UtcDateTime, metadata

schedules = sa.Table(
    "schedules",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
    sa.Column("agent_id", sa.String, sa.ForeignKey("agents.id"), nullable=False),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("unique_name", sa.String),
    sa.Column("cron", sa.String, nullable=False),
    sa.Column("tz", sa.String),
    sa.Column("input", sa.Text, nullable=False),
    sa.Column("overlap", sa.String, nullable=False),
    sa.Column("state", sa.String, nullable=False),
    sa.Column("next_fire_at", UtcDateTime, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("updated_at", UtcDateTime, nullable=False),
    sa.Column("last_fired_at", UtcDateTime),
    sa.Column("last_session", sa.String),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("last_error", sa.Text),
    sa.Column("deleted_at", UtcDateTime),
    sa.UniqueConstraint("agent_id", "unique_name", name="uq_schedules_name"),
    sa.Index("ix_schedules_due", "state", "next_fire_at"),
)
"""`unique_name` is the name until the schedule is deleted, and null from then on."""

schedule_runs = sa.Table(
    "schedule_runs",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("schedule_id", sa.String, sa.ForeignKey("schedules.id"), nullable=False),
    sa.Column("scheduled_for", UtcDateTime),
    sa.Column("fired_at", UtcDateTime, nullable=False),
    sa.Column("outcome", sa.String),
    sa.Column("session_id", sa.String),
    sa.Column("error", sa.Text),
    sa.Column("held_by", sa.String),
    sa.Column("held_until", UtcDateTime),
    sa.UniqueConstraint("schedule_id", "scheduled_for", name="uq_schedule_runs_slot"),
    sa.Index("ix_schedule_runs_newest", "schedule_id", "fired_at", "id"),
    sa.Index("ix_schedule_runs_held", "held_until"),
)
"""`outcome` and `held_until`: one of them is null, and the other is not."""

hooks = sa.Table(
    "hooks",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
    sa.Column("agent_id", sa.String, sa.ForeignKey("agents.id"), nullable=False),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("unique_name", sa.String),
    sa.Column("token_hash", sa.String, nullable=False, unique=True),
    sa.Column("secret_last4", sa.String, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("expires_at", UtcDateTime),
    sa.Column("revoked_at", UtcDateTime),
    sa.Column("revoked_reason", sa.String),
    sa.UniqueConstraint("agent_id", "unique_name", name="uq_hooks_name"),
    sa.Index("ix_hooks_newest", "agent_id", "created_at", "id"),
)
"""`unique_name` is the name until the hook is revoked, and null from then on."""
