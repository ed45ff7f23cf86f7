"""What becomes of an agent when it is edited: pure decisions about revisions, deployments and activations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from opencomputer.server.domain.sessions.agents import (
    CREATED,
    DEDUPED,
    Activation,
    Agent,
    AgentChange,
    Behaviour,
    Deployer,
    Deployment,
    LogLine,
    Reason,
    Revision,
    ScheduleSync,
)
from opencomputer.server.domain.sessions.credentials import ModelCredential
from opencomputer.server.domain.sessions.schedules import WantedSchedule
from opencomputer.server.domain.sessions.skills import SkillBundle
from opencomputer.wire.ids import AgentId, DeploymentId, RevisionId


@dataclass(frozen=True)
class NewIds:
    """Ids for whatever a change may bring into being."""

    revision: RevisionId
    deployment: DeploymentId
    activation: str


@dataclass(frozen=True)
class Made:
    """By whom, when and why something is changed, and the ids for what is new."""

    deployer: Deployer
    at: datetime
    reason: Reason
    ids: NewIds


@dataclass(frozen=True)
class DeploymentRequest:
    """How a deployment was asked for."""

    via: str = "api"
    idempotency_key: str | None = None
    request_hash: str | None = None
    log: Sequence[LogLine] = ()


@dataclass(frozen=True)
class Edit:
    """How an agent is to be. Everything is checked.

    `agent` has its bindings as they will be; its revision, version and times are as before. `behaviour` None:
    it stays. Without `activate`, a new behaviour becomes a revision and no more. `deployment` None: the
    change is none, as when an earlier revision is activated. `schedules` None: they stay.
    """

    agent: Agent
    behaviour: Behaviour | None = None
    bundle: SkillBundle | None = None
    credential: ModelCredential | None = None
    rotation: ModelCredential | None = None
    activate: bool = True
    deployment: DeploymentRequest | None = None
    schedules: Sequence[WantedSchedule] | None = None


def first_revision(agent_id: AgentId, behaviour: Behaviour, made: Made) -> Revision:
    return _revision(agent_id, 1, behaviour, made)


def creation(agent: Agent, made: Made, credential: ModelCredential | None) -> AgentChange:
    """A new agent, with its first revision."""
    deployment = _deployment(DeploymentRequest(), agent.revision, made, created=True)
    activation = _activation(agent.id, None, agent.revision, made)
    return AgentChange(
        agent,
        0,
        made.reason,
        made.deployer,
        revision=agent.revision,
        deployment=deployment,
        activation=activation,
        credential=credential,
    )


def change_of(before: Agent, edit: Edit, earlier: Sequence[Revision], made: Made) -> AgentChange | None:
    """The change that an edit is; None when everything is as it should be already.

    `earlier` are the agent's revisions that have the edit's digest, and the newest of all.
    """
    wanted, is_new = _wanted(before, edit, earlier, made)
    active = wanted if wanted is not None and edit.activate else edit.agent.revision
    after = replace(edit.agent, revision=active)
    changed = after != before or is_new or edit.rotation is not None
    deployment = None
    if edit.deployment is not None and wanted is not None:
        deployment = _deployment(edit.deployment, wanted, made, created=is_new)
    if not changed and deployment is None:
        return None
    if changed:
        after = replace(after, version=before.version + 1, updated_at=made.at)
    moved = active.id != before.revision.id
    return AgentChange(
        after,
        before.version,
        made.reason,
        made.deployer,
        revision=wanted if is_new else None,
        bundle=edit.bundle if is_new else None,
        deployment=deployment,
        activation=_activation(before.id, before.revision, active, made) if moved else None,
        credential=edit.credential,
        rotation=edit.rotation,
        schedules=None if edit.schedules is None else ScheduleSync(edit.schedules, made.at),
    )


def _wanted(
    before: Agent, edit: Edit, earlier: Sequence[Revision], made: Made
) -> tuple[Revision | None, bool]:
    """The revision with the edit's behaviour, and whether there was none before."""
    if edit.behaviour is None:
        return None, False
    digest = edit.behaviour.digest
    for each in earlier:
        if each.digest == digest:
            return each, False
    number = 1 + max((each.number for each in earlier), default=0)
    return _revision(before.id, number, edit.behaviour, made), True


def _revision(agent_id: AgentId, number: int, behaviour: Behaviour, made: Made) -> Revision:
    return Revision(
        made.ids.revision,
        agent_id,
        number,
        behaviour.digest,
        behaviour.prompt,
        behaviour.model,
        behaviour.skill_bundle_digest,
        made.at,
    )


def _activation(agent_id: AgentId, before: Revision | None, after: Revision, made: Made) -> Activation:
    return Activation(
        made.ids.activation,
        agent_id,
        None if before is None else before.id,
        after.id,
        made.deployer,
        made.reason,
        made.at,
    )


def _deployment(request: DeploymentRequest, revision: Revision, made: Made, *, created: bool) -> Deployment:
    result = CREATED if created else DEDUPED
    end = LogLine("ready", f"revision {revision.number}: {result}\n")
    return Deployment(
        made.ids.deployment,
        revision.agent_id,
        revision,
        result,
        request.via,
        made.deployer,
        made.at,
        log=(*request.log, end),
        idempotency_key=request.idempotency_key,
        request_hash=request.request_hash,
    )
