"""Schedules and hooks of agents."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_schedules()
    _create_runs()
    _create_hooks()


def _create_schedules() -> None:
    op.create_table(
        "schedules",
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
        sa.Column("next_fire_at", sa.DateTime, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("updated_at", sa.DateTime, nullable=False),
        sa.Column("last_fired_at", sa.DateTime),
        sa.Column("last_session", sa.String),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("last_error", sa.Text),
        sa.Column("deleted_at", sa.DateTime),
        sa.UniqueConstraint("agent_id", "unique_name", name="uq_schedules_name"),
    )
    op.create_index("ix_schedules_due", "schedules", ["state", "next_fire_at"])


def _create_runs() -> None:
    op.create_table(
        "schedule_runs",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("schedule_id", sa.String, sa.ForeignKey("schedules.id"), nullable=False),
        sa.Column("scheduled_for", sa.DateTime),
        sa.Column("fired_at", sa.DateTime, nullable=False),
        sa.Column("outcome", sa.String),
        sa.Column("session_id", sa.String),
        sa.Column("error", sa.Text),
        sa.Column("held_by", sa.String),
        sa.Column("held_until", sa.DateTime),
        sa.UniqueConstraint("schedule_id", "scheduled_for", name="uq_schedule_runs_slot"),
    )
    op.create_index("ix_schedule_runs_newest", "schedule_runs", ["schedule_id", "fired_at", "id"])
    op.create_index("ix_schedule_runs_held", "schedule_runs", ["held_until"])


def _create_hooks() -> None:
    op.create_table(
        "hooks",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
        sa.Column("agent_id", sa.String, sa.ForeignKey("agents.id"), nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("unique_name", sa.String),
        sa.Column("token_hash", sa.String, nullable=False, unique=True),
        sa.Column("secret_last4", sa.String, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("expires_at", sa.DateTime),
        sa.Column("revoked_at", sa.DateTime),
        sa.Column("revoked_reason", sa.String),
        sa.UniqueConstraint("agent_id", "unique_name", name="uq_hooks_name"),
    )
    op.create_index("ix_hooks_newest", "hooks", ["agent_id", "created_at", "id"])
