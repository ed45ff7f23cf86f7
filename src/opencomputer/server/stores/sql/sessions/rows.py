"""Rows of the tables of durable sessions, from values and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import sqlalchemy as sa

from opencomputer.server.domain.sessions.destinations import Delivery, Destination
from opencomputer.server.domain.sessions.events import Actor, Event, Level
from opencomputer.server.domain.sessions.fold import Fold
from opencomputer.server.domain.sessions.session import (
    Boxes,
    Origin,
    PinnedAgent,
    Session,
    SessionLimits,
    SessionStatus,
    SessionUsage,
    Turn,
    TurnError,
    TurnState,
    Usage,
    YieldReason,
)
from opencomputer.server.domain.webhooks.attempts import DeliveryStatus
from opencomputer.server.stores.sql.signing_secrets import sealed_body, sealed_of
from opencomputer.wire.ids import (
    AgentId,
    DeliveryId,
    DestinationId,
    EventId,
    OrgId,
    RevisionId,
    SandboxId,
    SessionId,
    SnapshotId,
    TurnId,
)

_TURN_COLUMNS = tuple(field.name for field in fields(Turn))


def session_values(session: Session) -> dict[str, Any]:
    """Of a new session, its fold apart."""
    return {
        "id": session.id,
        "org_id": session.org_id,
        "agent_id": session.agent.agent_id,
        "agent": asdict(session.agent),
        "epoch": session.epoch,
        "key": session.key,
        "metadata": sa.null() if session.metadata is None else dict(session.metadata),
        "limits": asdict(session.limits),
        "brain": session.boxes.brain,
        "hands": session.boxes.hands,
        "awake": session.boxes != Boxes(),
        "active_at": session.created_at,
        "auto_runs": session.auto_runs,
        "resume_from": session.resume_from,
        "origin_session": None if session.origin is None else session.origin.session_id,
        "origin_turn": None if session.origin is None else session.origin.turn_id,
        "created_at": session.created_at,
        "updated_at": session.updated_at,
    }


def fold_values(fold: Fold) -> dict[str, Any]:
    return {
        "status": fold.status,
        "head": fold.head,
        "input_cursor": fold.input_cursor,
        "turn_count": fold.turn_count,
        "usage": asdict(fold.usage),
    }


def fold_of(row: sa.Row[Any], open_turns: tuple[Turn, ...]) -> Fold:
    return Fold(
        status=SessionStatus(row.status),
        head=row.head,
        input_cursor=row.input_cursor,
        turn_count=row.turn_count,
        usage=_session_usage(row.usage),
        open_turns=open_turns,
    )


def session_of(row: sa.Row[Any], last_turn: Turn | None) -> Session:
    origin = None
    if row.origin_session is not None:
        origin = Origin(SessionId(row.origin_session), TurnId(row.origin_turn))
    return Session(
        id=SessionId(row.id),
        org_id=OrgId(row.org_id),
        agent=_agent(row.agent),
        status=SessionStatus(row.status),
        head=row.head,
        input_cursor=row.input_cursor,
        epoch=row.epoch,
        created_at=row.created_at,
        updated_at=row.updated_at,
        limits=SessionLimits(**row.limits),
        key=row.key,
        metadata=row.metadata,
        usage=_session_usage(row.usage),
        last_turn=last_turn,
        boxes=Boxes(_optional(SandboxId, row.brain), _optional(SandboxId, row.hands)),
        origin=origin,
        auto_runs=row.auto_runs,
        resume_from=_optional(TurnId, row.resume_from),
    )


def _optional(kind: Any, value: str | None) -> Any:
    return None if value is None else kind(value)


def _agent(body: Mapping[str, Any]) -> PinnedAgent:
    values: dict[str, Any] = dict(body)
    values["agent_id"] = AgentId(body["agent_id"])
    values["revision_id"] = RevisionId(body["revision_id"])
    values["limits"] = SessionLimits(**body["limits"])
    return PinnedAgent(**values)


def _session_usage(body: Mapping[str, Any]) -> SessionUsage:
    values: dict[str, Any] = dict(body)
    values["totals"] = None if body["totals"] is None else Usage(**body["totals"])
    return SessionUsage(**values)


def turn_values(turn: Turn) -> dict[str, Any]:
    values = {name: getattr(turn, name) for name in _TURN_COLUMNS}
    values["usage"] = sa.null() if turn.usage is None else asdict(turn.usage)
    values["error"] = sa.null() if turn.error is None else asdict(turn.error)
    return values


def turn_of(row: sa.Row[Any]) -> Turn:
    values = {name: getattr(row, name) for name in _TURN_COLUMNS}
    values |= {
        "id": TurnId(row.id),
        "session_id": SessionId(row.session_id),
        "state": TurnState(row.state),
        "yield_reason": _optional(YieldReason, row.yield_reason),
        "result_event_id": _optional(EventId, row.result_event_id),
        "usage": None if row.usage is None else Usage(**row.usage),
        "error": None if row.error is None else TurnError(**row.error),
        "checkpoint": _optional(SnapshotId, row.checkpoint),
    }
    return Turn(**values)


def event_values(event: Event, key: str | None, request_hash: str | None) -> dict[str, Any]:
    return {
        "session_id": event.session_id,
        "seq": event.seq,
        "id": event.id,
        "at": event.at,
        "type": event.type,
        "level": event.level,
        "body": dict(event.body),
        "actor": {name: value for name, value in asdict(event.actor).items() if value is not None},
        "turn_id": event.turn_id,
        "refs": dict(event.refs),
        "source": event.source,
        "content_ref": event.content_ref,
        "body_bytes": event.body_bytes,
        "key": key,
        "request_hash": request_hash,
    }


def event_of(row: sa.Row[Any]) -> Event:
    return Event(
        id=EventId(row.id),
        session_id=SessionId(row.session_id),
        seq=row.seq,
        at=row.at,
        type=row.type,
        level=Level(row.level),
        body=row.body,
        actor=Actor(**row.actor),
        turn_id=_optional(TurnId, row.turn_id),
        refs=row.refs,
        source=row.source,
        content_ref=row.content_ref,
        body_bytes=row.body_bytes,
    )


def destination_values(destination: Destination) -> dict[str, Any]:
    return {
        "id": destination.id,
        "session_id": destination.session_id,
        "url": destination.url,
        "level": destination.level,
        "types": sa.null() if destination.types is None else list(destination.types),
        "include_raw": destination.include_raw,
        "enabled": destination.enabled,
        "secrets": sealed_body(destination.secrets),
        "created_after_seq": destination.created_after_seq,
        "created_at": destination.created_at,
        "updated_at": destination.updated_at,
    }


def destination_of(row: sa.Row[Any]) -> Destination:
    return Destination(
        id=DestinationId(row.id),
        session_id=SessionId(row.session_id),
        url=row.url,
        level=Level(row.level),
        types=None if row.types is None else tuple(row.types),
        include_raw=row.include_raw,
        enabled=row.enabled,
        secrets=sealed_of(row.secrets),
        created_after_seq=row.created_after_seq,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def delivery_values(delivery: Delivery) -> dict[str, Any]:
    return {field.name: getattr(delivery, field.name) for field in fields(Delivery)}


def delivery_of(row: sa.Row[Any]) -> Delivery:
    values = {field.name: getattr(row, field.name) for field in fields(Delivery)}
    values |= {
        "id": DeliveryId(row.id),
        "session_id": SessionId(row.session_id),
        "destination_id": DestinationId(row.destination_id),
        "event_id": EventId(row.event_id),
        "status": DeliveryStatus(row.status),
    }
    return Delivery(**values)
