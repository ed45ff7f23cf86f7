"""Snapshots, patches, and what a sandbox keeps while it sleeps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _extend_sandboxes()
    _let_running_sandboxes_become_due()
    _create_snapshots()
    op.create_table(
        "patches",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("checkpoint_id", sa.String, sa.ForeignKey("snapshots.id"), nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("script", sa.Text, nullable=False),
        sa.Column("description", sa.Text),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.UniqueConstraint("checkpoint_id", "sequence", name="uq_patches_sequence"),
    )


def _extend_sandboxes() -> None:
    zero, no_layers = sa.text("0"), sa.text("'[]'")
    for column in (
        sa.Column("layers", sa.JSON, nullable=False, server_default=no_layers),
        sa.Column("origin_layers", sa.JSON, nullable=False, server_default=no_layers),
        sa.Column("workdir", sa.String),
        sa.Column("generation", sa.Integer, nullable=False, server_default=zero),
        sa.Column("from_checkpoint", sa.String),
        sa.Column("hibernation", sa.String),
        sa.Column("patch_source", sa.String),
        sa.Column("patch_position", sa.Integer, nullable=False, server_default=zero),
        sa.Column("patch_error", sa.Text),
        sa.Column("due_at", sa.DateTime),
        sa.Column("hibernate_failures", sa.Integer, nullable=False, server_default=zero),
        sa.Column("last_hibernate_error", sa.Text),
        sa.Column("recovered", sa.Integer),
    ):
        op.add_column("sandboxes", column)
    op.add_column("machines", sa.Column("layers", sa.JSON, nullable=False, server_default=no_layers))
    for name in ("from_checkpoint", "patch_source"):
        op.create_index(f"ix_sandboxes_{name}", "sandboxes", [name])
    op.create_index("ix_sandboxes_due", "sandboxes", ["state", "due_at"])


def _let_running_sandboxes_become_due() -> None:
    """Nobody knows when they were used last: their period starts now."""
    sandboxes = sa.table(
        "sandboxes",
        sa.column("state", sa.String),
        sa.column("timeout_seconds", sa.Integer),
        sa.column("due_at", sa.DateTime),
    )
    running = (sandboxes.c.state == "running") & (sandboxes.c.timeout_seconds > 0)
    periods = op.get_bind().scalars(sa.select(sandboxes.c.timeout_seconds).where(running).distinct()).all()
    now = datetime.now(UTC).replace(tzinfo=None)
    for seconds in periods:
        op.execute(
            sandboxes.update()
            .where(running, sandboxes.c.timeout_seconds == seconds)
            .values(due_at=now + timedelta(seconds=seconds))
        )


def _create_snapshots() -> None:
    op.create_table(
        "snapshots",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
        sa.Column("sandbox_id", sa.String),
        sa.Column("purpose", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False, index=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("unique_name", sa.String),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("ready_at", sa.DateTime),
        sa.Column("failed_at", sa.DateTime),
        sa.Column("error", sa.Text),
        sa.Column("is_public", sa.Boolean, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("template", sa.String, nullable=False),
        sa.Column("template_hash", sa.String, nullable=False),
        sa.Column("memory_mb", sa.Integer, nullable=False),
        sa.Column("cpu_count", sa.Integer, nullable=False),
        sa.Column("disk_mb", sa.Integer, nullable=False),
        sa.Column("layers", sa.JSON, nullable=False),
        sa.Column("environment", sa.JSON, nullable=False),
        sa.Column("metadata", sa.JSON, nullable=False),
        sa.Column("workdir", sa.String),
        sa.Column("network_enabled", sa.Boolean, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("patch_source", sa.String),
        sa.Column("patch_position", sa.Integer, nullable=False),
        sa.Column("memory_id", sa.String),
        sa.Column("memory_image_version", sa.String),
        sa.Column("memory_guest_token", sa.String),
        sa.Column("patches_ever", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.UniqueConstraint("sandbox_id", "unique_name", name="uq_snapshots_name"),
    )
