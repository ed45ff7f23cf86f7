"""Agents and what becomes of them as the contract shows them. One small function each."""

from __future__ import annotations

from opencomputer.server.domain.sessions.agents import (
    Activation,
    Agent,
    AgentVersion,
    Deployer,
    Deployment,
    Revision,
    limits_to_json,
    prompt_hash,
)
from opencomputer.server.domain.sessions.skills import Skill, SkillBundle, SkillText
from opencomputer.wire.durable_agents import (
    ActivationView,
    ActorView,
    AgentSkillsView,
    AgentVersionView,
    Checkpoints,
    DatedRevision,
    DeployedView,
    DeploymentLogLine,
    DeploymentSourceView,
    DeploymentStatus,
    DeploymentView,
    DeployView,
    DurableAgentView,
    RevisionReference,
    RevisionView,
    RevisionWithFilesView,
    ShortRevision,
    SkillFileView,
    SkillView,
    TimingView,
)

_FLOATING = "floating"


def invoke_url(origin: str, agent: Agent) -> str:
    """Where sessions of an agent will be started by a plain request, below the origin of this server."""
    return f"{origin}/a/{agent.id.replace('_', '-')}"


def agent(origin: str, shown: Agent, latest: Deployment | None) -> DurableAgentView:
    revision = shown.revision
    return DurableAgentView(
        id=shown.id,
        name=shown.name,
        runtime=shown.runtime,
        model=revision.model,
        invoke_url=invoke_url(origin, shown),
        prompt=revision.prompt,
        prompt_hash=prompt_hash(revision.prompt),
        credential_id=shown.credential,
        limits=None if shown.limits is None else dict(limits_to_json(shown.limits)),
        revision=revision.number,
        active_revision_id=revision.id,
        active_revision=reference(revision),
        deployment_status=None if latest is None else _status(latest),
        version=shown.version,
        default_repo=shown.default_repo,
        checkpoints=Checkpoints(keep=shown.checkpoints_kept),
        created_at=shown.created_at,
        updated_at=shown.updated_at,
    )


def version(shown: AgentVersion) -> AgentVersionView:
    return AgentVersionView(
        version=shown.version,
        reason=shown.reason,
        actor=_actor(shown.deployer),
        agent=dict(shown.snapshot),
        created_at=shown.created_at,
    )


def reference(shown: Revision) -> RevisionReference:
    return RevisionReference(id=shown.id, number=shown.number, digest=shown.digest)


def revision(its: Agent, shown: Revision) -> RevisionView:
    return RevisionView(
        id=shown.id,
        number=shown.number,
        digest=shown.digest,
        prompt=shown.prompt,
        model=shown.model,
        skill_bundle_digest=shown.skill_bundle_digest,
        runtime_ref=_FLOATING,
        active=shown.id == its.revision.id,
        created_at=shown.created_at,
    )


def revision_with_files(its: Agent, shown: Revision, skills: SkillBundle | None) -> RevisionWithFilesView:
    files = [] if skills is None else [_file(each) for each in skills.files]
    return RevisionWithFilesView(**dict(revision(its, shown)), files=files)


def deployment(its: Agent, shown: Deployment) -> DeploymentView:
    at, active = shown.created_at, shown.revision.id == its.revision.id
    return DeploymentView(
        id=shown.id,
        state=shown.state,
        phase=shown.state,
        terminal=True,
        result=shown.result,
        input_type="inline",
        active=active,
        revision_id=shown.revision.id,
        revision=DatedRevision(**dict(reference(shown.revision)), created_at=shown.revision.created_at),
        source=DeploymentSourceView(via=shown.via),
        actor=_actor(shown.deployer),
        log_bytes=sum(len(each.chunk.encode()) for each in shown.log),
        log_truncated=False,
        live_touched=False,
        timing=TimingView(accepted_at=at, started_at=at, finished_at=at, queue_ms=0, run_ms=0, total_ms=0),
        allowed_actions=["open_agent", "start_session"] if active else ["open_agent"],
        restore_eligibility="none",
        created_at=at,
        updated_at=at,
        started_at=at,
        finished_at=at,
    )


def log_line(its: Deployment, seq: int) -> DeploymentLogLine:
    """The line with this number, from 1 on."""
    line = its.log[seq - 1]
    return DeploymentLogLine(
        seq=str(seq),
        cursor=str(seq),
        recorded_at=its.created_at,
        phase=line.phase,
        stream="system",
        chunk=line.chunk,
    )


def deploy(shown: Deployment) -> DeployView:
    return DeployView(
        id=shown.id,
        state=shown.state,
        result=shown.result,
        source=shown.via,
        actor=_actor(shown.deployer),
        revision_id=shown.revision.id,
        created_at=shown.created_at,
    )


def deployed(its: Agent, shown: Deployment) -> DeployedView:
    made, active = shown.revision, shown.revision.id == its.revision.id
    return DeployedView(
        deploy_id=shown.id,
        state=shown.state,
        result=shown.result,
        revision=ShortRevision(**dict(reference(made)), active=active),
    )


def activation(shown: Activation) -> ActivationView:
    return ActivationView(
        id=shown.id,
        from_revision=shown.before,
        to=shown.after,
        actor=shown.deployer.id,
        reason=shown.reason,
        created_at=shown.created_at,
    )


def skills(shown: Revision, bundle: SkillBundle | None) -> AgentSkillsView:
    return AgentSkillsView(
        revision=reference(shown),
        skill_bundle_digest=shown.skill_bundle_digest,
        skills=[] if bundle is None else [_skill(each) for each in bundle.skills],
    )


def _skill(shown: Skill) -> SkillView:
    return SkillView(
        name=shown.name, description=shown.description, files=[_file(each) for each in shown.files]
    )


def _file(shown: SkillText) -> SkillFileView:
    return SkillFileView(path=shown.path, mode=shown.mode, size=shown.size)


def _actor(shown: Deployer) -> ActorView:
    return ActorView(kind=shown.kind, id=shown.id)


def _status(shown: Deployment) -> DeploymentStatus:
    return DeploymentStatus(
        deployment_id=shown.id,
        state=shown.state,
        result=shown.result,
        error_class=None,
        live_touched=False,
        live_status=None,
        updated_at=shown.created_at,
    )
