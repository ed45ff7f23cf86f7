"""Durable sessions: their log, their turns, and where their events are sent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _sessions()
    _events()
    _turns()
    _destinations()
    _deliveries()


def _sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("agent", sa.JSON, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("head", sa.BigInteger, nullable=False),
        sa.Column("input_cursor", sa.BigInteger, nullable=False),
        sa.Column("turn_count", sa.Integer, nullable=False),
        sa.Column("usage", sa.JSON, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("lease_owner", sa.String),
        sa.Column("lease_until", sa.DateTime),
        sa.Column("key", sa.String),
        sa.Column("idempotency_key", sa.String),
        sa.Column("request_hash", sa.String, nullable=False),
        sa.Column("metadata", sa.JSON),
        sa.Column("limits", sa.JSON, nullable=False),
        sa.Column("brain", sa.String),
        sa.Column("hands", sa.String),
        sa.Column("awake", sa.Boolean, nullable=False),
        sa.Column("active_at", sa.DateTime, nullable=False),
        sa.Column("auto_runs", sa.Integer, nullable=False),
        sa.Column("resume_from", sa.String),
        sa.Column("origin_session", sa.String),
        sa.Column("origin_turn", sa.String),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("updated_at", sa.DateTime, nullable=False),
        sa.UniqueConstraint("org_id", "key", name="uq_sessions_key"),
        sa.UniqueConstraint("org_id", "idempotency_key", name="uq_sessions_idempotency_key"),
    )
    op.create_index("ix_sessions_brain", "sessions", ["brain"])
    op.create_index("ix_sessions_hands", "sessions", ["hands"])
    op.create_index("sessions_of_org", "sessions", ["org_id", "created_at", "id"])
    op.create_index("sessions_to_run", "sessions", ["status", "lease_until"])
    op.create_index("sessions_awake", "sessions", ["awake", "active_at"])


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("session_id", sa.String, primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("at", sa.DateTime, nullable=False),
        sa.Column("type", sa.String, nullable=False),
        sa.Column("level", sa.String, nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
        sa.Column("actor", sa.JSON, nullable=False),
        sa.Column("turn_id", sa.String),
        sa.Column("refs", sa.JSON, nullable=False),
        sa.Column("source", sa.String),
        sa.Column("content_ref", sa.String),
        sa.Column("body_bytes", sa.BigInteger),
        sa.Column("key", sa.String),
        sa.Column("request_hash", sa.String),
        sa.UniqueConstraint("session_id", "key", name="uq_events_key"),
    )
    op.create_index("events_of_turn", "events", ["session_id", "turn_id", "seq"])
    op.create_table(
        "event_contents",
        sa.Column("session_id", sa.String, primary_key=True),
        sa.Column("event_id", sa.String, primary_key=True),
        sa.Column("media_type", sa.String, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )


def _turns() -> None:
    op.create_table(
        "turns",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("session_id", sa.String, sa.ForeignKey("sessions.id"), nullable=False),
        sa.Column("ordinal", sa.Integer, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("input_from_seq", sa.BigInteger, nullable=False),
        sa.Column("input_to_seq", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("claimed_at", sa.DateTime),
        sa.Column("started_at", sa.DateTime),
        sa.Column("deadline_at", sa.DateTime),
        sa.Column("cancel_requested_at", sa.DateTime),
        sa.Column("completed_at", sa.DateTime),
        sa.Column("yield_reason", sa.String),
        sa.Column("result_event_id", sa.String),
        sa.Column("active_ms", sa.BigInteger, nullable=False),
        sa.Column("usage", sa.JSON),
        sa.Column("error", sa.JSON),
        sa.Column("checkpoint", sa.String),
        sa.Column("state_kept", sa.Boolean, nullable=False),
        sa.UniqueConstraint("session_id", "ordinal", name="uq_turns_ordinal"),
    )


def _destinations() -> None:
    op.create_table(
        "destinations",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("session_id", sa.String, sa.ForeignKey("sessions.id"), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("level", sa.String, nullable=False),
        sa.Column("types", sa.JSON),
        sa.Column("include_raw", sa.Boolean, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("secrets", sa.JSON, nullable=False),
        sa.Column("created_after_seq", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("updated_at", sa.DateTime, nullable=False),
    )
    op.create_index("ix_destinations_session_id", "destinations", ["session_id"])


def _deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("session_id", sa.String, nullable=False),
        sa.Column("destination_id", sa.String, sa.ForeignKey("destinations.id"), nullable=False),
        sa.Column("event_id", sa.String, nullable=False),
        sa.Column("event_seq", sa.BigInteger, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("budget", sa.Integer, nullable=False),
        sa.Column("due_at", sa.DateTime),
        sa.Column("last_attempt_at", sa.DateTime),
        sa.Column("response_code", sa.Integer),
        sa.Column("error", sa.Text),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("updated_at", sa.DateTime, nullable=False),
        sa.UniqueConstraint("destination_id", "event_seq", name="uq_deliveries_event"),
    )
    op.create_index("deliveries_of_session", "deliveries", ["session_id", "event_seq", "id"])
    op.create_index("deliveries_due", "deliveries", ["due_at"])
