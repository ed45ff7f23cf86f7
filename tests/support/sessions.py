"""Durable sessions for tests: rows, and the real stores on a database in a file."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from opencomputer.server.contracts.sessions import Admission, SessionTables
from opencomputer.server.domain.sessions.events import API, USER_MESSAGE, Event, Level, NewEvent
from opencomputer.server.domain.sessions.naming import (
    new_agent_id,
    new_revision_id,
    new_session_id,
    new_turn_id,
)
from opencomputer.server.domain.sessions.session import (
    MANAGED,
    Completion,
    PinnedAgent,
    Session,
    SessionStatus,
    Turn,
    YieldReason,
)
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.sessions.stores import session_tables
from opencomputer.server.stores.sql.tables import organisations
from opencomputer.wire.ids import OrgId, SessionId, SnapshotId

AT = datetime(2026, 1, 1, tzinfo=UTC)


class NoSignals:
    """Implements SessionSignals: nobody waits."""

    def appended(self, session_id: SessionId, events: Sequence[Event] = ()) -> None: ...

    def queued(self, session_id: SessionId) -> None: ...

    def canceled(self, session_id: SessionId) -> None: ...

    def delivery(self) -> None: ...


def pinned(**changes: Any) -> PinnedAgent:
    fields: dict[str, Any] = {
        "agent_id": new_agent_id(),
        "version": 1,
        "revision_id": new_revision_id(),
        "revision": 1,
        "digest": "d",
        "prompt": "Be useful.",
        "prompt_hash": "h",
        "model": "anthropic/claude-sonnet-5",
        "runtime": "claude",
        "credential": MANAGED,
    }
    return PinnedAgent(**{**fields, **changes})


def new_session(org_id: OrgId, **agent: Any) -> Session:
    return Session(
        id=new_session_id(),
        org_id=org_id,
        agent=pinned(**agent),
        status=SessionStatus.QUEUED,
        head=0,
        input_cursor=0,
        epoch=0,
        created_at=AT,
        updated_at=AT,
    )


@asynccontextmanager
async def stored_sessions(folder: Path, *org_ids: OrgId) -> AsyncGenerator[SessionTables]:
    """The real stores, with these organisations."""
    database = Database.sqlite(folder / "sessions.db")
    await database.open()
    try:
        for org_id in org_ids:
            await database.run(sa.insert(organisations).values(id=org_id, name=str(org_id), created_at=AT))
        yield session_tables(database, NoSignals())
    finally:
        await database.close()


async def admitted(tables: SessionTables, org_id: OrgId, **agent: Any) -> Session:
    """A session whose first turn is queued."""
    hello = NewEvent(USER_MESSAGE, Level.USER, {"text": "hello"}, actor=API)
    admission = Admission(new_session(org_id, **agent), hello, new_turn_id(), request_hash="h")
    return (await tables.sessions.admit(admission)).session


async def steer(tables: SessionTables, session: Session, text: str = "go on") -> None:
    event = NewEvent(USER_MESSAGE, Level.USER, {"text": text}, actor=API)
    await tables.sessions.accept(session.id, event, AT)


async def begun(tables: SessionTables, session: Session) -> Turn:
    """Its oldest turn runs."""
    claim = await tables.turns.claim(session.id, "worker", AT, AT + timedelta(seconds=30))
    assert claim is not None
    return await tables.turns.begin(claim, AT, AT + timedelta(minutes=30))


async def turn_over(
    tables: SessionTables, session: Session, *, state_kept: bool = False, checkpoint: str | None = None
) -> Turn:
    """Run its oldest turn from begin to end."""
    claim = await tables.turns.claim(session.id, "worker", AT, AT + timedelta(seconds=30))
    assert claim is not None
    turn = await tables.turns.begin(claim, AT, AT + timedelta(minutes=30))
    completion = Completion(
        YieldReason.COMPLETED,
        AT,
        state_kept=state_kept,
        checkpoint=None if checkpoint is None else SnapshotId(checkpoint),
    )
    await tables.turns.complete(claim, completion)
    return turn
