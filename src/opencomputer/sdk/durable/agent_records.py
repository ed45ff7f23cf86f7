"""Agents, their revisions and deployments, and credentials, as the server describes them."""

from __future__ import annotations

from dataclasses import dataclass

from opencomputer.sdk.answers import Described
from opencomputer.sdk.durable.records import Record, part

TERMINAL_DEPLOYMENT_STATES = frozenset({"ready", "failed", "canceled", "superseded", "skipped"})


@dataclass(frozen=True, kw_only=True)
class ActiveRevision(Record):
    """Which revision new sessions start with."""

    id: str
    number: int = 0
    digest: str = ""


@dataclass(frozen=True, kw_only=True)
class DurableAgent(Record):
    """An agent: pure configuration, from which sessions are started.

    `credential_id` is `"managed"`, an id, or None for the organisation's default. `version` counts every
    change, `revision` those of behaviour.
    """

    id: str
    name: str = ""
    model: str = ""
    runtime: str = ""
    prompt: str | None = None
    prompt_hash: str | None = None
    version: int | None = None
    revision: int = 0
    active_revision_id: str | None = None
    active_revision: ActiveRevision | None = part(ActiveRevision)
    credential_id: str | None = None
    limits: Described | None = None
    checkpoints: Described | None = None
    """`keep`: for how many turns the hands' state is kept, to rewind to or fork from."""
    default_repo: str | None = None
    invoke_url: str = ""
    deployment_status: Described | None = None
    created_at: str = ""
    updated_at: str = ""


@dataclass(frozen=True, kw_only=True)
class AgentVersion(Record):
    """What an agent was after one accepted change: `agent` is all of it."""

    version: int
    reason: str = ""
    actor: Described | None = None
    agent: Described | None = None
    created_at: str = ""


@dataclass(frozen=True, kw_only=True)
class RevisionFile(Record):
    """A file of a revision's skills."""

    path: str
    mode: object = None
    size: int = 0


@dataclass(frozen=True, kw_only=True)
class Revision(Record):
    """An immutable snapshot of an agent's behaviour. `files` are there when one revision is asked for."""

    id: str
    number: int = 0
    digest: str = ""
    prompt: str | None = None
    model: str = ""
    skill_bundle_digest: str | None = None
    runtime_ref: str = ""
    active: bool = False
    sha: str | None = None
    ref: str | None = None
    created_at: str = ""
    files: list[RevisionFile] = part(RevisionFile, many=True)


@dataclass(frozen=True, kw_only=True)
class Deployment(Record):
    """One attempt to make a revision."""

    id: str
    state: str = ""
    phase: str = ""
    terminal: bool = False
    result: str | None = None
    input_type: str = ""
    active: bool = False
    revision_id: str | None = None
    revision: Revision | None = part(Revision)
    ref: str | None = None
    sha: str | None = None
    source: Described | None = None
    source_relation: Described | None = None
    actor: Described | None = None
    error: Described | None = None
    error_class: str | None = None
    build: Described | None = None
    configuration: Described | None = None
    log_bytes: int = 0
    log_truncated: bool = False
    live_touched: bool = False
    allowed_actions: list[str] | None = None
    timing: Described | None = None
    created_at: str = ""
    updated_at: str = ""
    started_at: str | None = None
    finished_at: str | None = None

    @property
    def ended(self) -> bool:
        """It will not change any more."""
        return self.terminal or self.state in TERMINAL_DEPLOYMENT_STATES


@dataclass(frozen=True, kw_only=True)
class DeploymentLog(Record):
    """A piece of what a deployment printed."""

    seq: int = 0
    cursor: str = ""
    recorded_at: str = ""
    phase: str = ""
    stream: str = ""
    chunk: str = ""


@dataclass(frozen=True, kw_only=True)
class Deployed(Record):
    """What putting or removing skills came to."""

    deploy_id: str
    state: str = ""
    result: str | None = None
    revision: Revision | None = part(Revision)


@dataclass(frozen=True, kw_only=True)
class Activation(Record):
    """The active revision moved to another one. `raw["from"]` and `to` name both."""

    id: str
    to: object = None
    actor: Described | None = None
    reason: str = ""
    created_at: str = ""


@dataclass(frozen=True, kw_only=True)
class Skill(Record):
    """A folder of instructions that the agent can look into."""

    name: str
    description: str | None = None
    files: list[RevisionFile] = part(RevisionFile, many=True)


@dataclass(frozen=True, kw_only=True)
class AgentSkills(Record):
    """The skills of an agent's active revision."""

    revision: ActiveRevision | None = part(ActiveRevision)
    skill_bundle_digest: str | None = None
    skills: list[Skill] = part(Skill, many=True)


@dataclass(frozen=True, kw_only=True)
class Credential(Record):
    """A key for models. The key itself is never given out again."""

    id: str
    provider: str = ""
    name: str | None = None
    last4: str = ""
    is_default: bool = False
    created_at: str = ""
