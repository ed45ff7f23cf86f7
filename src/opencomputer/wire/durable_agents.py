"""Shapes of agents of /v3, their deployments, revisions and skills (agent-sessions.md 3.1 to 3.6)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, SecretStr

from opencomputer.wire.model import Moment, PlainModel, PlainRequest
from opencomputer.wire.starters import CreateSchedule


class AgentLimits(PlainRequest):
    tokens: int | None = None
    turn_seconds: int | None = None
    turns: int | None = None


class Checkpoints(PlainRequest):
    """`keep`: for how many turns the state of the hands is kept."""

    keep: int


class CreateAgent(PlainRequest):
    name: str
    """One for each agent of the organisation."""
    model: str
    """`provider/model`."""
    prompt: str | None = None
    """Who it is, and how it works."""
    runtime: str | None = None
    """`claude`, `codex`, or one that the operator has added; follows from the model if nothing is said."""
    key: SecretStr | None = None
    """A key for its model, kept encrypted."""
    credential: str | None = None
    """The id of a key that is kept already."""
    limits: AgentLimits | None = None
    """Of each of its sessions."""
    default_repo: str | None = None
    """Kept and shown; repositories are not supported by this server yet."""
    checkpoints: Checkpoints | None = None
    """`{"keep": n}`: what is kept of the last n turns, to go back to."""


class UpdateAgent(PlainRequest):
    """`name` and `runtime` are here to be refused."""

    name: Any = None
    runtime: Any = None
    prompt: str | None = None
    model: str | None = None
    key: SecretStr | None = None
    credential: str | None = None
    limits: AgentLimits | None = None
    default_repo: str | None = None
    checkpoints: Checkpoints | None = None


class InlineSkillFile(PlainRequest):
    path: str
    content: str
    mode: int | str | None = None


class DeployRuntime(PlainRequest):
    type: str = "default"


class DeployInput(PlainRequest):
    """`type` says what else there is. What this server does not do is here to be refused.

    `schedules` are all that the agent has then; without the member they stay as they are.
    """

    type: str = "inline"
    prompt: str | None = None
    model: str | None = None
    skills: list[InlineSkillFile] | None = None
    runtime: DeployRuntime | None = None
    schedules: list[CreateSchedule] | None = None
    mcp: Any = None
    mcp_servers: Any = None


class CreateDeployment(PlainRequest):
    input: DeployInput
    activate: bool = True
    idempotency_key: str | None = None
    client_context: Any = None


class CreateRevision(DeployInput):
    """The shorthand: the input itself, or with an envelope around it."""

    input: DeployInput | None = None
    activate: bool = True
    idempotency_key: str | None = None


class RevisionReference(PlainModel):
    id: str
    number: int
    digest: str


class ShortRevision(RevisionReference):
    active: bool


class DatedRevision(RevisionReference):
    created_at: Moment


class DeploymentStatus(PlainModel):
    deployment_id: str
    state: str
    result: str | None
    error_class: str | None
    live_touched: bool
    live_status: str | None
    updated_at: Moment


class DurableAgentView(PlainModel):
    id: str
    name: str
    runtime: str
    model: str
    invoke_url: str
    prompt: str | None
    prompt_hash: str | None
    credential_id: str | None
    limits: dict[str, int] | None
    revision: int
    active_revision_id: str | None
    active_revision: RevisionReference | None
    deployment_status: DeploymentStatus | None = Field(exclude_if=lambda status: status is None)
    version: int
    default_repo: str | None
    checkpoints: Checkpoints
    created_at: Moment
    updated_at: Moment


class AgentPage(PlainModel):
    data: list[DurableAgentView]
    next_cursor: str | None


class ActorView(PlainModel):
    kind: str
    id: str


class AgentVersionView(PlainModel):
    version: int
    reason: str
    actor: ActorView
    agent: dict[str, Any]
    created_at: Moment


class AgentVersionPage(PlainModel):
    data: list[AgentVersionView]
    next_cursor: str | None


class TimingView(PlainModel):
    accepted_at: Moment
    started_at: Moment
    finished_at: Moment
    cancel_requested_at: None = None
    queue_ms: int
    run_ms: int
    total_ms: int


class DeploymentSourceView(PlainModel):
    via: str


class DeploymentView(PlainModel):
    """What repositories and builds would say is null: there are none here."""

    id: str
    state: str
    phase: str
    terminal: bool
    result: str
    input_type: str
    active: bool
    revision_id: str
    revision: DatedRevision
    ref: None = None
    sha: None = None
    source: DeploymentSourceView
    source_relation: None = None
    actor: ActorView
    error: None = None
    error_class: None = None
    build: None = None
    configuration: None = None
    log_bytes: int
    log_truncated: bool
    live_touched: bool
    agent_live: None = None
    timing: TimingView
    allowed_actions: list[str]
    restore_eligibility: str
    redeploy_of: None = None
    created_at: Moment
    updated_at: Moment
    started_at: Moment
    finished_at: Moment


class DeploymentAnswer(PlainModel):
    deployment: DeploymentView


class DeploymentPage(PlainModel):
    data: list[DeploymentView]
    next_cursor: str | None


class DeploymentLogLine(PlainModel):
    seq: str
    cursor: str
    recorded_at: Moment
    phase: str
    stream: str
    chunk: str


class DeploymentLogPage(PlainModel):
    data: list[DeploymentLogLine]
    next_cursor: str | None
    has_more: bool


class DeployedView(PlainModel):
    deploy_id: str
    state: str
    result: str
    revision: ShortRevision


class DeployView(PlainModel):
    """A deployment by its older name."""

    id: str
    state: str
    result: str
    source: str
    actor: ActorView
    revision_id: str
    created_at: Moment


class DeployPage(PlainModel):
    data: list[DeployView]
    next_cursor: str | None


class SkillFileView(PlainModel):
    path: str
    mode: int
    size: int


class RevisionView(PlainModel):
    id: str
    number: int
    digest: str
    prompt: str
    model: str
    skill_bundle_digest: str | None
    runtime_ref: str
    active: bool
    created_at: Moment
    sha: None = None
    ref: None = None


class RevisionWithFilesView(RevisionView):
    files: list[SkillFileView]


class RevisionPage(PlainModel):
    data: list[RevisionView]
    next_cursor: str | None


class ActivatedView(PlainModel):
    active_revision_id: str


class ActivationView(PlainModel):
    """`from` and `to` are ids of revisions, `actor` is that of an API key."""

    id: str
    from_revision: Annotated[str | None, Field(serialization_alias="from")]
    to: str
    actor: str
    reason: str
    created_at: Moment


class ActivationPage(PlainModel):
    data: list[ActivationView]
    next_cursor: str | None


class SkillView(PlainModel):
    name: str
    description: str | None
    files: list[SkillFileView]


class AgentSkillsView(PlainModel):
    revision: RevisionReference | None
    skill_bundle_digest: str | None
    skills: list[SkillView]
