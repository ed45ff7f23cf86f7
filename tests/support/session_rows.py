"""Durable sessions for tests of stores and services: each new, each like the others."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from opencomputer.server.contracts.sessions import Admission
from opencomputer.server.domain.secrets import Ciphertext
from opencomputer.server.domain.sessions import naming
from opencomputer.server.domain.sessions.destinations import Destination
from opencomputer.server.domain.sessions.events import API, Level, NewEvent
from opencomputer.server.domain.sessions.session import PinnedAgent, Session, SessionStatus
from opencomputer.wire.ids import OrgId
from tests.support.rows import NOON


def at(seconds: float = 0) -> datetime:
    return NOON + timedelta(seconds=seconds)


def pinned_agent(**changes: Any) -> PinnedAgent:
    pinned = PinnedAgent(
        agent_id=naming.new_agent_id(),
        version=1,
        revision_id=naming.new_revision_id(),
        revision=1,
        digest="sha256:0",
        prompt="You help.",
        prompt_hash="sha256:1",
        model="anthropic/claude-sonnet-4-5",
        runtime="scripted",
        credential="managed",
    )
    return replace(pinned, **changes)


def session(org_id: OrgId, **changes: Any) -> Session:
    new = Session(
        id=naming.new_session_id(),
        org_id=org_id,
        agent=pinned_agent(),
        status=SessionStatus.QUEUED,
        head=0,
        input_cursor=0,
        epoch=0,
        created_at=NOON,
        updated_at=NOON,
    )
    return replace(new, **changes)


def message(text: str = "hello", **changes: Any) -> NewEvent:
    return replace(NewEvent("user.message", Level.USER, {"text": text}, API), **changes)


def said(text: str = "hi", **changes: Any) -> NewEvent:
    return replace(NewEvent("agent.message", Level.USER, {"text": text}), **changes)


def admission(org_id: OrgId, request_hash: str = "h", **changes: Any) -> Admission:
    """Changes of the session, or of the admission itself."""
    own = {
        name: changes.pop(name) for name in ("input", "idempotency_key", "destinations") if name in changes
    }
    new = Admission(session(org_id, **changes), message(), naming.new_turn_id(), request_hash)
    return replace(new, **own)


def destination(of: Session, **changes: Any) -> Destination:
    new = Destination(
        id=naming.new_destination_id(),
        session_id=of.id,
        url="https://example.com/hook",
        level=Level.USER,
        types=None,
        include_raw=False,
        enabled=True,
        secrets=((Ciphertext(1, b"\x00sealed"), None),),
        created_after_seq=0,
        created_at=NOON,
        updated_at=NOON,
    )
    return replace(new, **changes)
