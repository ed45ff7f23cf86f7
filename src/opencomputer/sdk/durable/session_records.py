"""Sessions, turns, webhooks' destinations and deliveries, as the server describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from opencomputer.sdk.answers import Described
from opencomputer.sdk.durable.records import Record, part

if TYPE_CHECKING:
    from opencomputer.sdk.durable.events import SessionEvent

BUSY_STATUSES = frozenset({"queued", "running"})


@dataclass(frozen=True, kw_only=True)
class Usage(Record):
    """What was used. None is unknown, which is not the same as nothing.

    Of a turn, `reported` says whether its runtime said anything. `complete` False: at least this much.
    """

    reported: bool | None = None
    active_seconds: float | None = None
    reported_turns: int | None = None
    unreported_turns: int | None = None
    complete: bool | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    tokens: int | None = None
    total_cost_usd: float | None = None
    attribution: str | None = None


@dataclass(frozen=True, kw_only=True)
class TurnError(Record):
    """Why a turn failed."""

    code: str = ""
    message: str = ""
    retriable: bool = False


@dataclass(frozen=True, kw_only=True)
class Turn(Record):
    """One piece of work: `state` is queued, accepted, running, ok or error."""

    id: str
    state: str = ""
    yield_reason: str | None = None
    result_event_id: str | None = None
    error: TurnError | None = part(TurnError)
    started_at: str | None = None
    completed_at: str | None = None
    active_seconds: float | None = None
    usage: Usage | None = part(Usage)
    attempt: int | None = None
    input_from_seq: int | None = None
    input_to_seq: int | None = None


@dataclass(frozen=True, kw_only=True)
class SessionData(Record):
    """A session as it was when the server was asked."""

    id: str
    status: str = ""
    head: int = 0
    input_cursor: int = 0
    agent_id: str = ""
    credential_id: str | None = None
    agent_snapshot: Described | None = None
    last_turn: Turn | None = part(Turn)
    usage: Usage | None = part(Usage)
    limits: Described | None = None
    metadata: Described | None = None
    key: str | None = None
    sandboxes: Described | None = None
    origin: Described | None = None
    """Of a fork: the session and the turn it comes from."""
    created_at: str = ""
    updated_at: str = ""


@dataclass(frozen=True)
class SessionResult:
    """How the newest turn stands, and the event with what the agent had to say in the end."""

    last_turn: Turn | None
    result: SessionEvent | None

    @property
    def text(self) -> str:
        """What the agent said; "" when it said nothing."""
        return self.result.text if self.result is not None else ""


@dataclass(frozen=True, kw_only=True)
class SessionSource(Record):
    """A repository that a session asked for.

    `status` is pending, materializing, resolved, failed, unavailable or auth_required.
    """

    name: str = ""
    status: str = ""
    path: str = ""
    sha: str | None = None
    resolved_sha: str | None = None
    repo_id: str | None = None
    full_name: str | None = None
    requested_ref: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    retryable: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Watch(Record):
    """Something that wakes a session; `status` is active, closed, revoked or auth_required."""

    id: str
    type: str = "github_pr"
    repo: str = ""
    pr: int | None = None
    wake_on: str = ""
    intent: str | None = None
    status: str = ""
    origin: str = ""
    last_snapshot_at: str | None = None
    expires_at: str | None = None
    created_at: str = ""


class Accepted(NamedTuple):
    """An input that is in the log, and will be worked on whatever happens."""

    id: str
    seq: int


@dataclass(frozen=True, kw_only=True)
class Destination(Record):
    """Where a session's events are sent as webhooks."""

    id: str
    session: str = ""
    kind: str = "webhook"
    url: str = ""
    level: str = "user"
    types: list[str] | None = None
    include_raw: bool = False
    enabled: bool = True
    has_secret: bool = False
    created_after_seq: int = 0
    created_at: str = ""
    updated_at: str = ""


@dataclass(frozen=True, kw_only=True)
class Delivery(Record):
    """One event on its way to one destination: pending, delivering, delivered, failed or dead_letter."""

    id: str
    session: str = ""
    destination: str = ""
    event_id: str = ""
    event_seq: int = 0
    status: str = ""
    attempts: int = 0
    last_attempt_at: str | None = None
    response_code: int | None = None
    error: str | None = None
    created_at: str = ""
    updated_at: str = ""
