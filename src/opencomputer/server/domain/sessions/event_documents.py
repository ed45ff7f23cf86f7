"""An event as everybody outside sees it: in answers, in streams, in webhooks (section 3.13)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from opencomputer.server.domain.sessions.events import Actor, Event


def event_document(event: Event) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": event.id,
        "seq": event.seq,
        "ts": timestamp(event.at),
        "session": event.session_id,
        "actor": _actor(event.actor),
        "type": event.type,
        "level": event.level,
        "body": event.body,
        "turn_id": event.turn_id,
        "refs": event.refs,
    }
    if event.source is not None:
        document["source"] = event.source
    if event.content_ref is not None:
        document |= {
            "content_ref": event.content_ref,
            "body_truncated": True,
            "body_bytes": event.body_bytes,
        }
    return document


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC, with milliseconds."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _actor(actor: Actor) -> dict[str, str]:
    members = {"id": actor.id, "type": actor.type, "kind": actor.kind, "display": actor.display}
    return {name: value for name, value in members.items() if value is not None}
