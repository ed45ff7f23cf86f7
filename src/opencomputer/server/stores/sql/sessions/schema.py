"""The tables of durable sessions: the log, and what it adds up to."""

from __future__ import annotations

import sqlalchemy as sa

from opencomputer.server.stores.sql.tables import UtcDateTime, metadata

sessions = sa.Table(
    "sessions",
    metadata,
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
    sa.Column("lease_until", UtcDateTime),
    sa.Column("key", sa.String),
    sa.Column("idempotency_key", sa.String),
    sa.Column("request_hash", sa.String, nullable=False),
    sa.Column("metadata", sa.JSON),
    sa.Column("limits", sa.JSON, nullable=False),
    sa.Column("brain", sa.String, index=True),
    sa.Column("hands", sa.String, index=True),
    sa.Column("awake", sa.Boolean, nullable=False),
    sa.Column("active_at", UtcDateTime, nullable=False),
    sa.Column("auto_runs", sa.Integer, nullable=False),
    sa.Column("resume_from", sa.String),
    sa.Column("origin_session", sa.String),
    sa.Column("origin_turn", sa.String),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("updated_at", UtcDateTime, nullable=False),
    sa.UniqueConstraint("org_id", "key", name="uq_sessions_key"),
    sa.UniqueConstraint("org_id", "idempotency_key", name="uq_sessions_idempotency_key"),
    sa.Index("sessions_of_org", "org_id", "created_at", "id"),
    sa.Index("sessions_to_run", "status", "lease_until"),
    sa.Index("sessions_awake", "awake", "active_at"),
)
"""`awake`: its boxes may be. `active_at`: when it last had something to do, the server's own notes apart."""

events = sa.Table(
    "events",
    metadata,
    sa.Column("session_id", sa.String, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("id", sa.String, nullable=False, unique=True),
    sa.Column("at", UtcDateTime, nullable=False),
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
    sa.Index("events_of_turn", "session_id", "turn_id", "seq"),
)
"""Rows are added and never changed. `request_hash` is there for inputs that have a key."""

event_contents = sa.Table(
    "event_contents",
    metadata,
    sa.Column("session_id", sa.String, primary_key=True),
    sa.Column("event_id", sa.String, primary_key=True),
    sa.Column("media_type", sa.String, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
)

turns = sa.Table(
    "turns",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("session_id", sa.String, sa.ForeignKey("sessions.id"), nullable=False),
    sa.Column("ordinal", sa.Integer, nullable=False),
    sa.Column("state", sa.String, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("input_from_seq", sa.BigInteger, nullable=False),
    sa.Column("input_to_seq", sa.BigInteger, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("claimed_at", UtcDateTime),
    sa.Column("started_at", UtcDateTime),
    sa.Column("deadline_at", UtcDateTime),
    sa.Column("cancel_requested_at", UtcDateTime),
    sa.Column("completed_at", UtcDateTime),
    sa.Column("yield_reason", sa.String),
    sa.Column("result_event_id", sa.String),
    sa.Column("active_ms", sa.BigInteger, nullable=False),
    sa.Column("usage", sa.JSON),
    sa.Column("error", sa.JSON),
    sa.Column("checkpoint", sa.String),
    sa.Column("state_kept", sa.Boolean, nullable=False),
    sa.UniqueConstraint("session_id", "ordinal", name="uq_turns_ordinal"),
)

destinations = sa.Table(
    "destinations",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("session_id", sa.String, sa.ForeignKey("sessions.id"), nullable=False, index=True),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("level", sa.String, nullable=False),
    sa.Column("types", sa.JSON),
    sa.Column("include_raw", sa.Boolean, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("secrets", sa.JSON, nullable=False),
    sa.Column("created_after_seq", sa.BigInteger, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("updated_at", UtcDateTime, nullable=False),
)

deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("session_id", sa.String, nullable=False),
    sa.Column("destination_id", sa.String, sa.ForeignKey("destinations.id"), nullable=False),
    sa.Column("event_id", sa.String, nullable=False),
    sa.Column("event_seq", sa.BigInteger, nullable=False),
    sa.Column("status", sa.String, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("budget", sa.Integer, nullable=False),
    sa.Column("due_at", UtcDateTime),
    sa.Column("last_attempt_at", UtcDateTime),
    sa.Column("response_code", sa.Integer),
    sa.Column("error", sa.Text),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("updated_at", UtcDateTime, nullable=False),
    sa.UniqueConstraint("destination_id", "event_seq", name="uq_deliveries_event"),
    sa.Index("deliveries_of_session", "session_id", "event_seq", "id"),
    sa.Index("deliveries_due", "due_at"),
)
"""`due_at` of one that is being delivered: until when it is held. Null: nothing is to be done any more."""
