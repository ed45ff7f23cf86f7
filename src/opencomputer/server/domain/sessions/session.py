"""A durable session and its turns (agent-sessions.md sections 1.3, 1.4, 3.12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from opencomputer.wire.ids import (
    AgentId,
    EventId,
    OrgId,
    RevisionId,
    SandboxId,
    SessionId,
    SnapshotId,
    TurnId,
)

MANAGED = "managed"
"""In the place of a credential's id: the operator's own."""


class SessionStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    AWAITING_INPUT = "awaiting_input"
    IDLE = "idle"
    FAILED = "failed"
    ARCHIVED = "archived"


class TurnState(StrEnum):
    QUEUED = "queued"
    ACCEPTED = "accepted"
    RUNNING = "running"
    OK = "ok"
    ERROR = "error"

    @property
    def terminal(self) -> bool:
        return self in (TurnState.OK, TurnState.ERROR)


class YieldReason(StrEnum):
    """Why a turn ended."""

    COMPLETED = "completed"
    NEEDS_INPUT = "needs_input"
    ERROR = "error"
    BUDGET_EXCEEDED = "budget_exceeded"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    MAX_TURNS = "max_turns"
    CANCELED = "canceled"


@dataclass(frozen=True)
class SessionLimits:
    """`tokens` in all, `turn_seconds` of one turn, `turns` that run by themselves. None: no own limit."""

    tokens: int | None = None
    turn_seconds: int | None = None
    turns: int | None = None


@dataclass(frozen=True)
class Usage:
    """What one or more model requests took. The four are disjoint."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    cost_usd: float | None = None
    complete: bool = True
    """False: at least this much."""

    @property
    def tokens(self) -> int:
        return (
            self.input_tokens
            + self.output_tokens
            + self.cache_creation_input_tokens
            + self.cache_read_input_tokens
        )


@dataclass(frozen=True)
class SessionUsage:
    """Of all turns that have ended. `totals` is None until one of them reported something."""

    active_ms: int = 0
    reported_turns: int = 0
    unreported_turns: int = 0
    totals: Usage | None = None


@dataclass(frozen=True)
class PinnedAgent:
    """What a session keeps of its agent, whatever becomes of that (agent-sessions.md section 1.2).

    `model` is `provider/model`, the session's own where it has one. `credential` is the id of a credential,
    or MANAGED. `checkpoints_kept`: for how many turns the hands' state is kept; 0 is none.
    """

    agent_id: AgentId
    version: int
    revision_id: RevisionId
    revision: int
    digest: str
    prompt: str
    prompt_hash: str
    model: str
    runtime: str
    credential: str
    skill_bundle_digest: str | None = None
    limits: SessionLimits = SessionLimits()
    checkpoints_kept: int = 0

    @property
    def provider(self) -> str:
        return self.model.partition("/")[0]


@dataclass(frozen=True)
class TurnError:
    """Why a turn failed, safe to show."""

    code: str
    message: str
    retriable: bool = False


@dataclass(frozen=True)
class Turn:
    """One bounded piece of model work. It takes the inputs in `input_from_seq..input_to_seq`."""

    id: TurnId
    session_id: SessionId
    ordinal: int
    state: TurnState
    attempt: int
    input_from_seq: int
    input_to_seq: int
    created_at: datetime
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    deadline_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    completed_at: datetime | None = None
    yield_reason: YieldReason | None = None
    result_event_id: EventId | None = None
    active_ms: int = 0
    usage: Usage | None = None
    error: TurnError | None = None
    checkpoint: SnapshotId | None = None
    """The hands as they were when the turn ended, for as long as it is kept."""
    state_kept: bool = False
    """The runtime's state at the end of this turn is still kept."""


@dataclass(frozen=True)
class Boxes:
    """The sandboxes of a session, as far as there are any."""

    brain: SandboxId | None = None
    hands: SandboxId | None = None


@dataclass(frozen=True)
class Origin:
    """Where a forked session comes from."""

    session_id: SessionId
    turn_id: TurnId


@dataclass(frozen=True)
class Session:
    """One durable run. `epoch` counts its claims; whoever has an older one may not write any more."""

    id: SessionId
    org_id: OrgId
    agent: PinnedAgent
    status: SessionStatus
    head: int
    input_cursor: int
    epoch: int
    created_at: datetime
    updated_at: datetime
    limits: SessionLimits = SessionLimits()
    key: str | None = None
    metadata: Mapping[str, Any] | None = None
    usage: SessionUsage = field(default_factory=SessionUsage)
    last_turn: Turn | None = None
    boxes: Boxes = Boxes()
    origin: Origin | None = None
    auto_runs: int = 0
    """Runs of the brain since a person last said something."""
    resume_from: TurnId | None = None
    """The turn whose saved runtime state the brain goes on from; None: from nothing."""

    @property
    def archived(self) -> bool:
        return self.status is SessionStatus.ARCHIVED


@dataclass(frozen=True)
class SessionFilter:
    """None: whatever it is."""

    status: SessionStatus | None = None
    agent_id: AgentId | None = None
    key: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


@dataclass(frozen=True)
class Claim:
    """The right to write one turn of a session, for as long as nobody has claimed it anew."""

    session_id: SessionId
    turn_id: TurnId
    attempt: int
    epoch: int
    owner: str


@dataclass(frozen=True)
class Completion:
    """How a turn ends, and what is kept of this moment."""

    reason: YieldReason
    at: datetime
    result_event_id: EventId | None = None
    usage: Usage | None = None
    error: TurnError | None = None
    failed: bool = False
    """The session itself broke, not just this turn."""
    checkpoint: SnapshotId | None = None
    state_kept: bool = False
