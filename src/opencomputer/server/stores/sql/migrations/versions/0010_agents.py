"""Agents, their revisions and deployments, and the keys for their models."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_agents()
    _create_revisions()
    _create_deployments()
    _create_audit()
    _create_credentials()


def _create_agents() -> None:
    op.create_table(
        "agents",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("unique_name", sa.String),
        sa.Column("runtime", sa.String, nullable=False),
        sa.Column("revision_id", sa.String, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("credential", sa.String, index=True),
        sa.Column("limits", sa.JSON),
        sa.Column("default_repo", sa.String),
        sa.Column("checkpoints_kept", sa.Integer, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("updated_at", sa.DateTime, nullable=False),
        sa.Column("deleted_at", sa.DateTime),
        sa.UniqueConstraint("org_id", "unique_name", name="uq_agents_name"),
        sa.Index("ix_agents_org_newest", "org_id", "created_at", "id"),
    )


def _create_revisions() -> None:
    op.create_table(
        "agent_revisions",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, sa.ForeignKey("agents.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("prompt", sa.Text, nullable=False),
        sa.Column("model", sa.String, nullable=False),
        sa.Column("skill_bundle_digest", sa.String),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.UniqueConstraint("agent_id", "number", name="uq_agent_revisions_number"),
        sa.UniqueConstraint("agent_id", "digest", name="uq_agent_revisions_digest"),
    )
    op.create_table(
        "skill_bundles",
        sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), primary_key=True),
        sa.Column("digest", sa.String, primary_key=True),
        sa.Column("files", sa.JSON, nullable=False),
    )


def _create_deployments() -> None:
    op.create_table(
        "agent_deployments",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, sa.ForeignKey("agents.id"), nullable=False),
        sa.Column("ordinal", sa.Integer, nullable=False),
        sa.Column("revision_id", sa.String, sa.ForeignKey("agent_revisions.id"), nullable=False),
        sa.Column("result", sa.String, nullable=False),
        sa.Column("via", sa.String, nullable=False),
        sa.Column("deployer_kind", sa.String, nullable=False),
        sa.Column("deployer_id", sa.String, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("log", sa.JSON, nullable=False),
        sa.Column("idempotency_key", sa.String),
        sa.Column("request_hash", sa.String),
        sa.UniqueConstraint("agent_id", "ordinal", name="uq_agent_deployments_ordinal"),
        sa.UniqueConstraint("agent_id", "idempotency_key", name="uq_agent_deployments_idempotency"),
    )


def _create_audit() -> None:
    op.create_table(
        "agent_activations",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("agent_id", sa.String, sa.ForeignKey("agents.id"), nullable=False),
        sa.Column("ordinal", sa.Integer, nullable=False),
        sa.Column("before", sa.String),
        sa.Column("after", sa.String, nullable=False),
        sa.Column("deployer_kind", sa.String, nullable=False),
        sa.Column("deployer_id", sa.String, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.UniqueConstraint("agent_id", "ordinal", name="uq_agent_activations_ordinal"),
    )
    op.create_table(
        "agent_versions",
        sa.Column("agent_id", sa.String, sa.ForeignKey("agents.id"), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("deployer_kind", sa.String, nullable=False),
        sa.Column("deployer_id", sa.String, nullable=False),
        sa.Column("snapshot", sa.JSON, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
    )


def _create_credentials() -> None:
    op.create_table(
        "model_credentials",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False, index=True),
        sa.Column("provider", sa.String, nullable=False),
        sa.Column("default_of", sa.String),
        sa.Column("name", sa.String),
        sa.Column("last4", sa.String, nullable=False),
        sa.Column("key_version", sa.Integer, nullable=False),
        sa.Column("ciphertext", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.DateTime, nullable=False),
        sa.Column("updated_at", sa.DateTime, nullable=False),
        sa.UniqueConstraint("org_id", "default_of", name="uq_model_credentials_default"),
    )
