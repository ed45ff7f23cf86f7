"""Shapes of durable sessions, of their turns and of messages (agent-sessions.md sections 3.12, 3.15)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from opencomputer.wire.model import Moment, PlainModel, PlainRequest, optional

Word = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f]*$")]
"""A name or an id that is looked up."""
Positive = Annotated[int, Field(ge=1, le=2**53)]


class Envelope(PlainRequest):
    """A message with what belongs to it. `raw` is handed on untouched."""

    text: str
    raw: Any = None
    id: str | None = None
    source: Any = None
    conversation: Any = None
    refs: dict[str, Any] | None = None


class Limits(PlainRequest):
    tokens: Positive | None = None
    turn_seconds: Positive | None = None
    turns: Positive | None = None


class InlineDestination(PlainRequest):
    """A webhook that is there before the session's first event. It signs nothing."""

    url: str
    level: Literal["user", "progress", "internal"] = "user"
    types: list[Word] | None = None
    include_raw: bool = False
    enabled: bool = True


class CreateSession(PlainRequest):
    agent: Word
    """Its id."""
    input: Envelope
    """What is to be done: a text, or `{"text", "raw"}`."""
    model: Word | None = None
    """Another model than the agent's, of the same runtime."""
    revision: Any = None
    """Another revision than the active one: its number or id."""
    key: str | None = None
    """Names the session for ever: asking again gives the same one."""
    metadata: dict[str, Any] | None = None
    """Kept with it, and sent with webhooks."""
    limits: Limits | None = None
    """Tighter than the agent's."""
    webhook: str | None = None
    """A URL for its events, unsigned."""
    destinations: list[InlineDestination] | None = None
    """Webhooks, each with filters and a secret."""
    sources: list[Any] | None = None
    """Not supported by this server yet."""
    scopes: list[str] | None = None
    """Of the client token in the answer: `read`, `steer`."""
    ttl: int | None = None
    """Seconds that this token holds."""

    @field_validator("input", mode="before")
    @classmethod
    def _text_or_envelope(cls, sent: Any) -> Any:
        if isinstance(sent, str):
            return {"text": sent}
        if not isinstance(sent, dict):
            raise ValueError("must be a text, or an envelope with a text")
        return sent  # pyright: ignore[reportUnknownVariableType] - it is validated next

    @field_validator("revision")
    @classmethod
    def _number_or_id(cls, sent: Any) -> int | str | None:
        whole = isinstance(sent, int) and not isinstance(sent, bool) and 0 < sent < 2**53
        if sent is None or whole or (isinstance(sent, str) and sent.startswith("rev_") and len(sent) < 65):
            return sent
        raise ValueError("must be the number of a revision, or its id (rev_…)")


class PostMessage(PlainRequest):
    """Either a text or an envelope."""

    text: str | None = None
    envelope: Envelope | None = None
    idempotency_key: str | None = None


class CreateClientToken(PlainRequest):
    scopes: list[str] | None = None
    ttl: int | None = None


class RewindSession(PlainRequest):
    turn: Word


class ForkSession(PlainRequest):
    """Without a turn: the newest one that is kept."""

    turn: Word | None = None


class AgentSnapshotView(PlainModel):
    """What the session keeps of its agent."""

    prompt_hash: str
    model: str
    runtime: str
    revision: int
    revision_id: str
    version: int
    digest: str
    skill_bundle_digest: str | None


class ErrorView(PlainModel):
    """Why a turn failed."""

    code: str
    message: str
    retriable: bool


class TurnUsageView(PlainModel):
    """What a turn took. Numbers that nobody reported are not there."""

    reported: bool
    input_tokens: int | None = optional()
    output_tokens: int | None = optional()
    cache_creation_input_tokens: int | None = optional()
    cache_read_input_tokens: int | None = optional()
    tokens: int | None = optional()
    total_cost_usd: float | None = optional()
    attribution: Literal["exact", "best_effort"] | None = optional()
    complete: Literal[False] | None = optional()


class SessionUsageView(PlainModel):
    """Of all turns that have ended. Without `complete`, each number is a lower bound."""

    active_seconds: float
    reported_turns: int
    unreported_turns: int
    complete: bool
    input_tokens: int | None = optional()
    output_tokens: int | None = optional()
    cache_creation_input_tokens: int | None = optional()
    cache_read_input_tokens: int | None = optional()
    tokens: int | None = optional()
    total_cost_usd: float | None = optional()
    attribution: Literal["exact", "best_effort"] | None = optional()


class LastTurnView(PlainModel):
    id: str
    state: str
    yield_reason: str | None = optional()
    result_event_id: str | None = optional()
    started_at: Moment | None = optional()
    completed_at: Moment | None = optional()
    error: ErrorView | None = optional()


class TurnView(LastTurnView):
    active_seconds: float
    usage: TurnUsageView
    attempt: int
    input_from_seq: int
    input_to_seq: int


class ResultView(PlainModel):
    """The newest turn, and the event that it came to: whole, as the log has it."""

    last_turn: LastTurnView | None
    result: dict[str, Any] | None


class LimitsView(PlainModel):
    tokens: int | None = optional()
    turn_seconds: int | None = optional()
    turns: int | None = optional()


class SandboxesView(PlainModel):
    brain: str | None
    hands: str | None


class OriginView(PlainModel):
    """The session, and the turn of it, that a fork goes on from."""

    session_id: str
    turn_id: str


class SessionView(PlainModel):
    id: str
    status: str
    head: int
    input_cursor: int
    agent_id: str
    credential_id: str
    agent_snapshot: AgentSnapshotView
    last_turn: LastTurnView | None
    usage: SessionUsageView
    limits: LimitsView | None
    metadata: dict[str, Any] | None
    key: str | None = optional()
    sandboxes: SandboxesView | None
    origin: OriginView | None = optional()
    created_at: Moment
    updated_at: Moment


class SessionsView(PlainModel):
    data: list[SessionView]
    next_cursor: str | None


class TurnsView(PlainModel):
    data: list[TurnView]
    next_cursor: str | None


class CreatedSessionView(PlainModel):
    session: SessionView
    client_token: str
    sources: list[Any]


class BriefSessionView(PlainModel):
    id: str
    status: str
    head: int


class DoneView(PlainModel):
    """What was asked of a session has been noted."""

    ok: Literal[True] = True
    session: BriefSessionView


class BriefEventView(PlainModel):
    id: str
    seq: int


class AcceptedView(PlainModel):
    """A message is in the log: as this event."""

    event: BriefEventView
    session: BriefSessionView


class ClientTokenView(PlainModel):
    """`token` and `client_token` are the same; clients differ in which of them they read."""

    token: str
    client_token: str
    scopes: list[str]
    expires_at: Moment
