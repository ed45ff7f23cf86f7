"""The tables of agents, of what becomes of them, and of the keys for their models."""

from __future__ import annotations

import sqlalchemy as sa

from opencomputer.server.stores.sql.tables import UtcDateTime, metadata

agents = sa.Table(
    "agents",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("unique_name", sa.String),
    sa.Column("runtime", sa.String, nullable=False),
    sa.Column("revision_id", sa.String, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("credential", sa.String, index=True),
    sa.Column("limits", sa.JSON(none_as_null=True)),
    sa.Column("default_repo", sa.String),
    sa.Column("checkpoints_kept", sa.Integer, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("updated_at", UtcDateTime, nullable=False),
    sa.Column("deleted_at", UtcDateTime),
    sa.UniqueConstraint("org_id", "unique_name", name="uq_agents_name"),
    sa.Index("ix_agents_org_newest", "org_id", "created_at", "id"),
)
"""`unique_name` is the name until the agent is deleted, and null from then on."""

agent_revisions = sa.Table(
    "agent_revisions",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("agent_id", sa.String, sa.ForeignKey("agents.id"), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("digest", sa.String, nullable=False),
    sa.Column("prompt", sa.Text, nullable=False),
    sa.Column("model", sa.String, nullable=False),
    sa.Column("skill_bundle_digest", sa.String),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.UniqueConstraint("agent_id", "number", name="uq_agent_revisions_number"),
    sa.UniqueConstraint("agent_id", "digest", name="uq_agent_revisions_digest"),
)

skill_bundles = sa.Table(
    "skill_bundles",
    metadata,
    sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), primary_key=True),
    sa.Column("digest", sa.String, primary_key=True),
    sa.Column("files", sa.JSON, nullable=False),
)
"""Each organisation has its own, equal content or not."""

agent_deployments = sa.Table(
    "agent_deployments",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("agent_id", sa.String, sa.ForeignKey("agents.id"), nullable=False),
    sa.Column("ordinal", sa.Integer, nullable=False),
    sa.Column("revision_id", sa.String, sa.ForeignKey("agent_revisions.id"), nullable=False),
    sa.Column("result", sa.String, nullable=False),
    sa.Column("via", sa.String, nullable=False),
    sa.Column("deployer_kind", sa.String, nullable=False),
    sa.Column("deployer_id", sa.String, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("log", sa.JSON, nullable=False),
    sa.Column("idempotency_key", sa.String),
    sa.Column("request_hash", sa.String),
    sa.UniqueConstraint("agent_id", "ordinal", name="uq_agent_deployments_ordinal"),
    sa.UniqueConstraint("agent_id", "idempotency_key", name="uq_agent_deployments_idempotency"),
)

agent_activations = sa.Table(
    "agent_activations",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("agent_id", sa.String, sa.ForeignKey("agents.id"), nullable=False),
    sa.Column("ordinal", sa.Integer, nullable=False),
    sa.Column("before", sa.String),
    sa.Column("after", sa.String, nullable=False),
    sa.Column("deployer_kind", sa.String, nullable=False),
    sa.Column("deployer_id", sa.String, nullable=False),
    sa.Column("reason", sa.String, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.UniqueConstraint("agent_id", "ordinal", name="uq_agent_activations_ordinal"),
)

agent_versions = sa.Table(
    "agent_versions",
    metadata,
    sa.Column("agent_id", sa.String, sa.ForeignKey("agents.id"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("reason", sa.String, nullable=False),
    sa.Column("deployer_kind", sa.String, nullable=False),
    sa.Column("deployer_id", sa.String, nullable=False),
    sa.Column("snapshot", sa.JSON, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
)

model_credentials = sa.Table(
    "model_credentials",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("org_id", sa.String, sa.ForeignKey("organisations.id"), nullable=False, index=True),
    sa.Column("provider", sa.String, nullable=False),
    sa.Column("default_of", sa.String),
    sa.Column("name", sa.String),
    sa.Column("last4", sa.String, nullable=False),
    sa.Column("key_version", sa.Integer, nullable=False),
    sa.Column("ciphertext", sa.LargeBinary, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("updated_at", UtcDateTime, nullable=False),
    sa.UniqueConstraint("org_id", "default_of", name="uq_model_credentials_default"),
)
"""`default_of` is the provider where this is the organisation's default for it, and null everywhere else."""
