"""Agents, their revisions and how those come into being (agent-sessions.md sections 1.2, 1.5, 3.1 to 3.5)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.sessions.credentials import ModelCredential
from opencomputer.server.domain.sessions.errors import ModelRuntimeMismatch, PayloadTooLarge
from opencomputer.server.domain.sessions.schedules import WantedSchedule
from opencomputer.server.domain.sessions.session import SessionLimits
from opencomputer.server.domain.sessions.skills import SkillBundle
from opencomputer.wire.ids import AgentId, DeploymentId, OrgId, RevisionId

DEFAULT_RUNTIME = "claude"
MAX_PROMPT_BYTES = 256 << 10
MAX_CHECKPOINTS_KEPT = 50
MAX_LIMIT = 2**53 - 1
"""The largest number that every client reads exactly."""

_NAME = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,128}")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}/[\x21-\x7e]{1,191}")
_REPOSITORY = re.compile(r"[\x21-\x7e]{1,255}")


class Reason(StrEnum):
    """Why an agent changed, or another revision became its active one."""

    CREATE = "create"
    DEPLOY = "deploy"
    PATCH = "patch"
    SKILLS = "skills"
    ACTIVATE = "activate"
    CREDENTIAL_DELETED = "credential_deleted"


@dataclass(frozen=True)
class Behaviour:
    """What a revision consists of."""

    prompt: str
    model: str
    skill_bundle_digest: str | None = None

    @property
    def digest(self) -> str:
        members = {"prompt": self.prompt, "model": self.model, "skills": self.skill_bundle_digest}
        canonical = json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return sha256(canonical.encode())


@dataclass(frozen=True)
class Revision:
    """An agent's behaviour under a number. It never changes."""

    id: RevisionId
    agent_id: AgentId
    number: int
    digest: str
    prompt: str
    model: str
    skill_bundle_digest: str | None
    created_at: datetime

    @property
    def behaviour(self) -> Behaviour:
        return Behaviour(self.prompt, self.model, self.skill_bundle_digest)


@dataclass(frozen=True)
class Agent:
    """Configuration that sessions are started from. `version` counts every change, of whatever kind.

    `credential` is a credential's id or MANAGED; None: the organisation's default. `revision` is the active
    one.
    """

    id: AgentId
    org_id: OrgId
    name: str
    runtime: str
    revision: Revision
    version: int
    created_at: datetime
    updated_at: datetime
    credential: str | None = None
    limits: SessionLimits | None = None
    default_repo: str | None = None
    checkpoints_kept: int = 0
    deleted_at: datetime | None = None


@dataclass(frozen=True)
class Deployer:
    """Who changes an agent."""

    kind: str
    id: str


@dataclass(frozen=True)
class LogLine:
    phase: str
    chunk: str


@dataclass(frozen=True)
class Deployment:
    """One attempt to make a revision, which succeeded: what is not valid is refused before it is one.

    `result` is `created`, or `deduped` when the agent has had this behaviour before.
    """

    id: DeploymentId
    agent_id: AgentId
    revision: Revision
    result: str
    via: str
    deployer: Deployer
    created_at: datetime
    log: Sequence[LogLine] = ()
    idempotency_key: str | None = None
    request_hash: str | None = None

    state = "ready"


CREATED = "created"
DEDUPED = "deduped"


@dataclass(frozen=True)
class Activation:
    """A move of the pointer to the active revision."""

    id: str
    agent_id: AgentId
    before: RevisionId | None
    after: RevisionId
    deployer: Deployer
    reason: Reason
    created_at: datetime


@dataclass(frozen=True)
class AgentVersion:
    """An agent as it was from one change on."""

    agent_id: AgentId
    version: int
    reason: Reason
    deployer: Deployer
    snapshot: Mapping[str, Any]
    created_at: datetime

    @property
    def id(self) -> str:
        """Within the agent."""
        return str(self.version)


@dataclass(frozen=True)
class ScheduleSync:
    """The schedules that an agent has from then on, and no others."""

    wanted: Sequence[WantedSchedule]
    at: datetime


@dataclass(frozen=True)
class AgentChange:
    """One accepted change, to be written as a whole. `agent` is how it is afterwards.

    `version` is the one it was made from. `revision`, `bundle` and `credential` are new ones; `rotation` is a
    credential with a new key. `schedules` None: they stay as they are.
    """

    agent: Agent
    version: int
    reason: Reason
    deployer: Deployer
    revision: Revision | None = None
    bundle: SkillBundle | None = None
    deployment: Deployment | None = None
    activation: Activation | None = None
    credential: ModelCredential | None = None
    rotation: ModelCredential | None = None
    schedules: ScheduleSync | None = None

    @property
    def snapshot(self) -> AgentVersion | None:
        """The new version; None when it is only tried again what is there."""
        agent = self.agent
        if agent.version == self.version:
            return None
        return AgentVersion(
            agent.id, agent.version, self.reason, self.deployer, snapshot_of(agent), agent.updated_at
        )


def snapshot_of(agent: Agent) -> Mapping[str, Any]:
    """What an agent's version is, in JSON. Behaviour is in its revision."""
    limits = agent.limits
    return {
        "name": agent.name,
        "runtime": agent.runtime,
        "revision": agent.revision.number,
        "revision_id": agent.revision.id,
        "model": agent.revision.model,
        "credential_id": agent.credential,
        "limits": None if limits is None else limits_to_json(limits),
        "default_repo": agent.default_repo,
        "checkpoints": {"keep": agent.checkpoints_kept},
    }


def limits_to_json(limits: SessionLimits) -> Mapping[str, int]:
    """Only what is limited."""
    members = {"tokens": limits.tokens, "turn_seconds": limits.turn_seconds, "turns": limits.turns}
    return {name: value for name, value in members.items() if value is not None}


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def prompt_hash(prompt: str) -> str:
    return sha256(prompt.encode())


def provider_of(model: str) -> str:
    return model.partition("/")[0]


# What may be said of an agent


def check_agent_name(name: str) -> str:
    name = name.strip()
    if not _NAME.fullmatch(name):
        raise InvalidInput("name: must have 1 to 128 characters, without control characters", field="name")
    return name


def check_prompt(prompt: str) -> str:
    if "\0" in prompt:
        raise InvalidInput("prompt: must not contain NUL", field="prompt")
    try:
        size = len(prompt.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput("prompt: is not valid Unicode text", field="prompt") from error
    if size > MAX_PROMPT_BYTES:
        raise PayloadTooLarge(f"prompt: must have at most {MAX_PROMPT_BYTES} bytes", field="prompt")
    return prompt


def check_model(model: str) -> str:
    if not _MODEL.fullmatch(model):
        raise InvalidInput(
            "model: must be provider/model, anthropic/claude-sonnet-5 for instance", field="model"
        )
    return model


def check_model_runs(model: str, runtime: str, providers: Collection[str]) -> str:
    """Raises InvalidInput, and ModelRuntimeMismatch when the runtime cannot use this provider's models."""
    if provider_of(check_model(model)) not in providers:
        raise ModelRuntimeMismatch(
            f"model: the runtime {runtime} uses models of {' and '.join(sorted(providers))}, "
            f"not of {provider_of(model)}",
            field="model",
        )
    return model


def check_repository(repository: str | None) -> str | None:
    if repository is not None and not _REPOSITORY.fullmatch(repository):
        raise InvalidInput(
            "default_repo: must have 1 to 255 printable characters without spaces, or be null",
            field="default_repo",
        )
    return repository


def check_limits(limits: SessionLimits | None) -> SessionLimits | None:
    """None for limits that limit nothing."""
    if limits is None or limits == SessionLimits():
        return None
    for name, value in limits_to_json(limits).items():
        if not 1 <= value <= MAX_LIMIT:
            raise InvalidInput(f"limits.{name}: must be a positive integer", field=f"limits.{name}")
    return limits


def check_checkpoints(kept: int | None) -> int | None:
    if kept is not None and not 0 <= kept <= MAX_CHECKPOINTS_KEPT:
        raise InvalidInput(
            f"checkpoints.keep: must be between 0 and {MAX_CHECKPOINTS_KEPT}", field="checkpoints.keep"
        )
    return kept
