"""Rows of agents as values, and values as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from opencomputer.server.domain.secrets import Ciphertext
from opencomputer.server.domain.sessions.agents import (
    Activation,
    Agent,
    AgentVersion,
    Deployer,
    Deployment,
    LogLine,
    Reason,
    Revision,
    limits_to_json,
)
from opencomputer.server.domain.sessions.credentials import ModelCredential
from opencomputer.server.domain.sessions.session import SessionLimits
from opencomputer.server.domain.sessions.skills import SkillBundle, SkillText
from opencomputer.server.stores.sql.sessions.agent_tables import (
    agent_deployments,
    agent_revisions,
    agents,
    model_credentials,
)
from opencomputer.wire.ids import AgentId, DeploymentId, ModelCredentialId, OrgId, RevisionId

_REVISION: Sequence[sa.ColumnElement[Any]] = [
    column.label(f"revision_{column.name}") for column in agent_revisions.c if column.name != "id"
]


def agents_with_revisions() -> sa.Select[*tuple[Any, ...]]:
    """Each agent with its active revision, for `agent_of`."""
    active = agents.c.revision_id == agent_revisions.c.id
    return sa.select(agents, *_REVISION).join(agent_revisions, active)


def deployments_with_revisions() -> sa.Select[*tuple[Any, ...]]:
    """Each deployment with its revision, for `deployment_of`."""
    its = agent_deployments.c.revision_id == agent_revisions.c.id
    return sa.select(agent_deployments, *_REVISION).join(agent_revisions, its)


def agent_of(row: sa.Row[Any]) -> Agent:
    return Agent(
        id=AgentId(row.id),
        org_id=OrgId(row.org_id),
        name=row.name,
        runtime=row.runtime,
        revision=_joined_revision(row),
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
        credential=row.credential,
        limits=None if row.limits is None else SessionLimits(**row.limits),
        default_repo=row.default_repo,
        checkpoints_kept=row.checkpoints_kept,
        deleted_at=row.deleted_at,
    )


def bindings(agent: Agent) -> Mapping[str, Any]:
    """What a change may write of an agent's row."""
    return {
        "revision_id": agent.revision.id,
        "version": agent.version,
        "credential": agent.credential,
        "limits": None if agent.limits is None else limits_to_json(agent.limits),
        "default_repo": agent.default_repo,
        "checkpoints_kept": agent.checkpoints_kept,
        "updated_at": agent.updated_at,
    }


def agent_values(agent: Agent) -> Mapping[str, Any]:
    return {
        "id": agent.id,
        "org_id": agent.org_id,
        "name": agent.name,
        "unique_name": agent.name,
        "runtime": agent.runtime,
        "created_at": agent.created_at,
        **bindings(agent),
    }


def revision_of(row: sa.Row[Any]) -> Revision:
    return Revision(
        RevisionId(row.id),
        AgentId(row.agent_id),
        row.number,
        row.digest,
        row.prompt,
        row.model,
        row.skill_bundle_digest,
        row.created_at,
    )


def _joined_revision(row: sa.Row[Any]) -> Revision:
    return Revision(
        RevisionId(row.revision_id),
        AgentId(row.revision_agent_id),
        row.revision_number,
        row.revision_digest,
        row.revision_prompt,
        row.revision_model,
        row.revision_skill_bundle_digest,
        row.revision_created_at,
    )


def revision_values(revision: Revision) -> Mapping[str, Any]:
    return {
        "id": revision.id,
        "agent_id": revision.agent_id,
        "number": revision.number,
        "digest": revision.digest,
        "prompt": revision.prompt,
        "model": revision.model,
        "skill_bundle_digest": revision.skill_bundle_digest,
        "created_at": revision.created_at,
    }


def bundle_of(row: sa.Row[Any]) -> SkillBundle:
    return SkillBundle(row.digest, tuple(SkillText(*each) for each in row.files))


def files_of(bundle: SkillBundle) -> Sequence[Sequence[str | bool]]:
    return [[each.path, each.content, each.executable] for each in bundle.files]


def deployment_of(row: sa.Row[Any]) -> Deployment:
    return Deployment(
        DeploymentId(row.id),
        AgentId(row.agent_id),
        _joined_revision(row),
        row.result,
        row.via,
        Deployer(row.deployer_kind, row.deployer_id),
        row.created_at,
        log=tuple(LogLine(*each) for each in row.log),
        idempotency_key=row.idempotency_key,
        request_hash=row.request_hash,
    )


def deployment_values(deployment: Deployment) -> Mapping[str, Any]:
    """All but the ordinal."""
    return {
        "id": deployment.id,
        "agent_id": deployment.agent_id,
        "revision_id": deployment.revision.id,
        "result": deployment.result,
        "via": deployment.via,
        **deployer_values(deployment.deployer),
        "created_at": deployment.created_at,
        "log": [[each.phase, each.chunk] for each in deployment.log],
        "idempotency_key": deployment.idempotency_key,
        "request_hash": deployment.request_hash,
    }


def deployer_values(deployer: Deployer) -> Mapping[str, str]:
    return {"deployer_kind": deployer.kind, "deployer_id": deployer.id}


def activation_of(row: sa.Row[Any]) -> Activation:
    return Activation(
        row.id,
        AgentId(row.agent_id),
        None if row.before is None else RevisionId(row.before),
        RevisionId(row.after),
        Deployer(row.deployer_kind, row.deployer_id),
        Reason(row.reason),
        row.created_at,
    )


def activation_values(activation: Activation) -> Mapping[str, Any]:
    """All but the ordinal."""
    return {
        "id": activation.id,
        "agent_id": activation.agent_id,
        "before": activation.before,
        "after": activation.after,
        **deployer_values(activation.deployer),
        "reason": activation.reason,
        "created_at": activation.created_at,
    }


def version_of(row: sa.Row[Any]) -> AgentVersion:
    return AgentVersion(
        AgentId(row.agent_id),
        row.version,
        Reason(row.reason),
        Deployer(row.deployer_kind, row.deployer_id),
        row.snapshot,
        row.created_at,
    )


def version_values(version: AgentVersion) -> Mapping[str, Any]:
    return {
        "agent_id": version.agent_id,
        "version": version.version,
        "reason": version.reason,
        **deployer_values(version.deployer),
        "snapshot": version.snapshot,
        "created_at": version.created_at,
    }


def credential_of(row: sa.Row[Any]) -> ModelCredential:
    return ModelCredential(
        id=ModelCredentialId(row.id),
        org_id=OrgId(row.org_id),
        provider=row.provider,
        name=row.name,
        last4=row.last4,
        ciphertext=Ciphertext(row.key_version, row.ciphertext),
        is_default=row.default_of is not None,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def insert_credential(credential: ModelCredential) -> sa.Insert:
    return model_credentials.insert().values(
        id=credential.id,
        org_id=credential.org_id,
        provider=credential.provider,
        default_of=credential.provider if credential.is_default else None,
        name=credential.name,
        created_at=credential.created_at,
        **_key_values(credential),
    )


def rotate_credential(credential: ModelCredential) -> sa.Update:
    its = (model_credentials.c.id == credential.id) & (model_credentials.c.org_id == credential.org_id)
    return model_credentials.update().where(its).values(**_key_values(credential))


def _key_values(credential: ModelCredential) -> Mapping[str, Any]:
    return {
        "last4": credential.last4,
        "key_version": credential.ciphertext.key_version,
        "ciphertext": credential.ciphertext.data,
        "updated_at": credential.updated_at,
    }
