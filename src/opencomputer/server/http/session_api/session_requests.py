"""What clients send about sessions, as services take it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from opencomputer.server.domain.errors import InvalidInput, NotSupported
from opencomputer.server.domain.sessions.events import Actor, Level, NewEvent
from opencomputer.server.domain.sessions.idempotency import checked_key
from opencomputer.server.domain.sessions.messages import (
    Absent,
    Message,
    check_session_metadata,
    user_message,
)
from opencomputer.server.domain.sessions.session import SessionFilter, SessionLimits, SessionStatus
from opencomputer.server.http.session_api.body import Sent
from opencomputer.server.services.sessions.sessions import NewDestination, NewSession
from opencomputer.wire.ids import AgentId
from opencomputer.wire.sessions import CreateSession, Envelope, InlineDestination, Limits, PostMessage


def new_session(sent: Sent[CreateSession], idempotency_key: str | None, actor: Actor) -> NewSession:
    """Raises InvalidInput, PayloadTooLarge or NotSupported, naming the field."""
    body = sent.value
    key = checked_key(body.key, "key")
    if body.sources:
        raise NotSupported("sources: not supported by this server yet", field="sources")
    check_session_metadata(body.metadata)
    return NewSession(
        agent=body.agent,
        # A session's first message cannot be sent twice: the session would be another one.
        input=user_message(_message(body.input, None), actor, "input"),
        request_hash=sent.hash,
        model=body.model,
        revision=body.revision,
        key=key,
        idempotency_key=idempotency_key,
        metadata=body.metadata,
        limits=_limits(body.limits),
        destinations=_destinations(body),
    )


def posted_message(body: PostMessage, header: str | None, actor: Actor) -> NewEvent:
    """Raises InvalidInput or PayloadTooLarge, naming the field."""
    if (body.text is None) == (body.envelope is None):
        raise InvalidInput("either text or envelope must be there, and not both", field="text")
    if body.envelope is None:
        key = checked_key(body.idempotency_key, "idempotency_key") or header
        return user_message(Message(body.text or "", key=key), actor, "text")
    own = checked_key(body.envelope.id, "envelope.id")
    key = checked_key(body.idempotency_key, "idempotency_key") or own or header
    return user_message(_message(body.envelope, key), actor, "envelope.text")


def _message(envelope: Envelope, key: str | None) -> Message:
    sent = envelope.model_fields_set
    refs: dict[str, Any] = {
        name: getattr(envelope, name) for name in ("source", "conversation") if name in sent
    }
    raw = envelope.raw if "raw" in sent else Absent.ABSENT
    return Message(envelope.text, raw, key, refs | (envelope.refs or {}))


def _limits(limits: Limits | None) -> SessionLimits:
    if limits is None:
        return SessionLimits()
    return SessionLimits(limits.tokens, limits.turn_seconds, limits.turns)


def _destinations(body: CreateSession) -> list[NewDestination]:
    hook = [] if body.webhook is None else [NewDestination(body.webhook, "webhook")]
    return hook + [_destination(each, place) for place, each in enumerate(body.destinations or ())]


def _destination(sent: InlineDestination, place: int) -> NewDestination:
    types = tuple(sent.types) if sent.types else None
    field = f"destinations.{place}.url"
    return NewDestination(sent.url, field, Level(sent.level), types, sent.include_raw, sent.enabled)


def session_filter(query: dict[str, str | None]) -> SessionFilter:
    """What a list of sessions is to have. Raises InvalidInput naming the parameter."""
    agent, key = query["agent"], checked_key(query["key"], "key")
    return SessionFilter(
        status=_status(query["status"]),
        agent_id=None if agent is None else AgentId(agent),
        key=key,
        created_after=moment_of(query["after"], "after"),
        created_before=moment_of(query["before"], "before"),
    )


def _status(text: str | None) -> SessionStatus | None:
    if text is None:
        return None
    if text not in tuple(SessionStatus):
        raise InvalidInput(f"status must be one of {', '.join(SessionStatus)}", field="status")
    return SessionStatus(text)


def moment_of(text: str | None, field: str) -> datetime | None:
    """A point in time as it was sent. Raises InvalidInput."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None or "T" not in text.upper():
            raise ValueError("not a moment")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        shape = "a time like 2026-01-31T12:00:00Z"
        raise InvalidInput(f"{field} must be {shape}", field=field) from error
