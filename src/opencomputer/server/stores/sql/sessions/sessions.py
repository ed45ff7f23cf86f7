"""Durable sessions in SQL."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from opencomputer.server.contracts.sessions import (
    Accepted,
    Admission,
    Admitted,
    SessionSignals,
)
from opencomputer.server.domain.errors import Conflict, IdempotencyMismatch, NotFound
from opencomputer.server.domain.sessions.errors import SessionArchived
from opencomputer.server.domain.sessions.events import (
    SESSION_REWOUND,
    SYSTEM,
    Event,
    Level,
    NewEvent,
)
from opencomputer.server.domain.sessions.fold import Fold, changes_state, is_input
from opencomputer.server.domain.sessions.naming import new_turn_id
from opencomputer.server.domain.sessions.session import Boxes, Session, SessionFilter, Turn
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.sessions.appending import OpenSession, with_last_turns
from opencomputer.server.stores.sql.sessions.ending import archive, cancel
from opencomputer.server.stores.sql.sessions.rows import (
    destination_values,
    event_of,
    fold_values,
    session_values,
    turn_of,
)
from opencomputer.server.stores.sql.sessions.schema import destinations, events, sessions, turns
from opencomputer.server.stores.sql.sessions.telling import SessionWriter
from opencomputer.wire.ids import OrgId, SandboxId, SessionId, TurnId

_INPUT_KEY = "input:"
"""Before the keys that callers choose, so that none is one of ours."""


@dataclass(frozen=True)
class _Request:
    """What tells a request for a session from others."""

    org_id: OrgId
    hash: str
    key: str | None
    idempotency_key: str | None

    @classmethod
    def of(cls, admission: Admission) -> _Request:
        session = admission.session
        return cls(session.org_id, admission.request_hash, session.key, admission.idempotency_key)


class SqlSessionStore:
    """Implements SessionStore."""

    def __init__(self, database: Database, signals: SessionSignals) -> None:
        self._database = database
        self._writer = SessionWriter(database, signals)
        self._signals = signals

    async def admit(self, admission: Admission) -> Admitted:
        try:
            async with self._database.write() as connection:
                earlier = await _earlier(connection, _Request.of(admission))
                if earlier is not None:
                    return Admitted(earlier, replayed=True)
                opened = await _insert(connection, admission)
                admitted = await opened.session()
        except IntegrityError:
            # Somebody else's request with the same key was there first, and is committed now.
            async with self._database.read() as connection:
                earlier = await _earlier(connection, _Request.of(admission))
            if earlier is None:
                raise
            return Admitted(earlier, replayed=True)
        self._writer.tell(opened)
        return Admitted(admitted, replayed=False)

    async def replay(
        self, org_id: OrgId, request_hash: str, *, key: str | None, idempotency_key: str | None
    ) -> Session | None:
        async with self._database.read() as connection:
            return await _earlier(connection, _Request(org_id, request_hash, key, idempotency_key))

    async def get(self, org_id: OrgId, session_id: SessionId) -> Session | None:
        return await self._first((sessions.c.id == session_id) & (sessions.c.org_id == org_id))

    async def find(self, session_id: SessionId) -> Session | None:
        return await self._first(sessions.c.id == session_id)

    async def _first(self, condition: sa.ColumnElement[bool]) -> Session | None:
        async with self._database.read() as connection:
            rows = (await connection.execute(sa.select(sessions).where(condition))).all()
            found = await with_last_turns(connection, rows)
        return found[0] if found else None

    async def list(
        self, org_id: OrgId, wanted: SessionFilter, *, limit: int, before: Session | None = None
    ) -> Sequence[Session]:
        query = (
            sa.select(sessions)
            .where(sessions.c.org_id == org_id, *_conditions(wanted))
            .order_by(sessions.c.created_at.desc(), sessions.c.id.desc())
            .limit(limit)
        )
        if before is not None:
            query = query.where(
                sa.tuple_(sessions.c.created_at, sessions.c.id)
                < sa.tuple_(sa.literal(before.created_at, sessions.c.created_at.type), sa.literal(before.id))
            )
        async with self._database.read() as connection:
            return await with_last_turns(connection, (await connection.execute(query)).all())

    async def accept(
        self, session_id: SessionId, event: NewEvent, at: datetime, *, request_hash: str | None = None
    ) -> Accepted:
        key = None if event.key is None else _INPUT_KEY + event.key
        if not is_input(event.type):
            raise ValueError(f"{event.type} is no input")
        async with self._writer.open(session_id) as opened:
            earlier = await _earlier_input(opened, key, request_hash)
            if earlier is not None:
                return Accepted(earlier, await opened.session(), replayed=True)
            if opened.row.status == "archived":
                raise SessionArchived
            joined = opened.fold.next_input_turn
            turn_id = new_turn_id() if joined is None else joined.id
            [added] = await opened.append([replace(event, key=key)], at, turn_id, request_hash=request_hash)
            await opened.save(at, active_at=at, auto_runs=0)
            return Accepted(added, await opened.session(), replayed=False)

    async def note(self, session_id: SessionId, events: Sequence[NewEvent], at: datetime) -> Sequence[Event]:
        if any(changes_state(each.type) for each in events):
            raise ValueError("what changes a session's state is not just noted")
        async with self._writer.open(session_id) as opened:
            added = await opened.append(events, at)
            if opened.appended:
                await opened.save(at)
            return added

    async def turns(self, session_id: SessionId, *, limit: int, before: Turn | None = None) -> Sequence[Turn]:
        query = sa.select(turns).where(turns.c.session_id == session_id)
        if before is not None:
            query = query.where(turns.c.ordinal < before.ordinal)
        rows = await self._database.rows(query.order_by(turns.c.ordinal.desc()).limit(limit))
        return [turn_of(row) for row in rows]

    async def turn(self, session_id: SessionId, turn_id: TurnId) -> Turn | None:
        mine = (turns.c.session_id == session_id) & (turns.c.id == turn_id)
        row = await self._database.first(sa.select(turns).where(mine))
        return None if row is None else turn_of(row)

    async def set_boxes(self, session_id: SessionId, boxes: Boxes) -> None:
        values = {"brain": boxes.brain, "hands": boxes.hands, "awake": boxes != Boxes()}
        await self._database.run(sessions.update().where(sessions.c.id == session_id).values(values))

    async def forget_kept(
        self, session_id: SessionId, *, states: Set[TurnId], checkpoints: Set[TurnId]
    ) -> None:
        mine = turns.update().where(turns.c.session_id == session_id)
        async with self._database.write() as connection:
            await connection.execute(mine.where(turns.c.id.in_(states)).values(state_kept=False))
            await connection.execute(mine.where(turns.c.id.in_(checkpoints)).values(checkpoint=None))

    async def request_cancel(self, session_id: SessionId, at: datetime) -> Session:
        async with self._writer.open(session_id) as opened:
            await cancel(opened, at)
            session = await opened.session()
        self._signals.canceled(session_id)
        return session

    async def archive(self, session_id: SessionId, at: datetime) -> Session:
        async with self._writer.open(session_id) as opened:
            await archive(opened, at)
            session = await opened.session()
        self._signals.canceled(session_id)
        return session

    async def rewind(
        self, session_id: SessionId, turn_id: TurnId, at: datetime, *, hands: SandboxId | None = None
    ) -> Session:
        async with self._writer.open(session_id) as opened:
            if opened.row.status == "archived":
                raise SessionArchived
            mine = (turns.c.session_id == session_id) & (turns.c.id == turn_id)
            if (await opened.connection.execute(sa.select(turns.c.id).where(mine))).first() is None:
                raise NotFound("there is no such turn")
            if opened.fold.open_turns:
                raise Conflict("a session cannot be rewound while a turn is queued or runs")
            body = {"turn_id": turn_id, "summary": f"rewound to the end of {turn_id}"}
            await opened.append([NewEvent(SESSION_REWOUND, Level.PROGRESS, body, SYSTEM)], at)
            held = {} if hands is None else {"hands": hands, "awake": True}
            await opened.save(at, active_at=at, resume_from=turn_id, **held)
            return await opened.session()


def _conditions(wanted: SessionFilter) -> list[sa.ColumnElement[bool]]:
    conditions: list[sa.ColumnElement[bool]] = []
    if wanted.status is not None:
        conditions.append(sessions.c.status == wanted.status)
    if wanted.agent_id is not None:
        conditions.append(sessions.c.agent_id == wanted.agent_id)
    if wanted.key is not None:
        conditions.append(sessions.c.key == wanted.key)
    if wanted.created_after is not None:
        conditions.append(sessions.c.created_at > wanted.created_after)
    if wanted.created_before is not None:
        conditions.append(sessions.c.created_at < wanted.created_before)
    return conditions


async def _earlier(connection: AsyncConnection, request: _Request) -> Session | None:
    """The session that this request, or another one with a key of it, has made."""
    same = {"key": request.key, "idempotency_key": request.idempotency_key}
    for name, value in same.items():
        if value is None:
            continue
        query = sa.select(sessions).where(sessions.c.org_id == request.org_id, sessions.c[name] == value)
        row = (await connection.execute(query)).first()
        if row is None:
            continue
        if row.request_hash != request.hash:
            what = "the create key" if name == "key" else "this idempotency key"
            raise IdempotencyMismatch(f"{what} was already used with a different request", field=name)
        return (await with_last_turns(connection, [row]))[0]
    return None


async def _insert(connection: AsyncConnection, admission: Admission) -> OpenSession:
    session = admission.session
    fold = Fold()
    values: dict[str, Any] = {
        **session_values(session),
        **fold_values(fold),
        "idempotency_key": admission.idempotency_key,
        "request_hash": admission.request_hash,
    }
    row = (await connection.execute(sessions.insert().values(values).returning(sessions))).one()
    for destination in admission.destinations:
        new = destination_values(replace(destination, created_after_seq=0))
        await connection.execute(destinations.insert().values(new))
    opened = OpenSession(connection, session.id, row, fold)
    # What starts a fork may be no input: it waits for one then.
    turn_id = admission.first_turn if is_input(admission.input.type) else None
    await opened.append([admission.input], session.created_at, turn_id)
    await opened.save(session.updated_at)
    return opened


async def _earlier_input(opened: OpenSession, key: str | None, request_hash: str | None) -> Event | None:
    if key is None:
        return None
    query = sa.select(events).where(events.c.session_id == opened.id, events.c.key == key)
    row = (await opened.connection.execute(query)).first()
    if row is None:
        return None
    if request_hash is not None and row.request_hash != request_hash:
        raise IdempotencyMismatch("this idempotency key was already used with a different message")
    return event_of(row)
