"""Appending to a session's log: the only place that does, under the session's lock.

Whoever changes a session first locks its row. In the same transaction the events get their `seq`, the fold
goes along, and the deliveries they cause are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sessions.destinations import ATTEMPTS, Delivery
from opencomputer.server.domain.sessions.events import Event, NewEvent
from opencomputer.server.domain.sessions.fold import Fold, after
from opencomputer.server.domain.sessions.naming import new_delivery_id, new_event_id
from opencomputer.server.domain.sessions.offload import content_ref, offloaded
from opencomputer.server.domain.sessions.patterns import wants
from opencomputer.server.domain.sessions.session import Session, Turn, TurnState
from opencomputer.server.domain.webhooks.attempts import DeliveryStatus
from opencomputer.server.stores.sql.sessions.rows import (
    delivery_values,
    destination_of,
    event_of,
    event_values,
    fold_of,
    fold_values,
    session_of,
    turn_of,
    turn_values,
)
from opencomputer.server.stores.sql.sessions.schema import (
    deliveries,
    destinations,
    event_contents,
    events,
    sessions,
    turns,
)
from opencomputer.wire.ids import SessionId, TurnId

_OPEN = [state for state in TurnState if not state.terminal]
_KEYS_AT_ONCE = 500
"""Databases have a limit of parameters per statement."""


@dataclass
class OpenSession:
    """A session whose row is locked until the transaction ends. `save` writes what was changed."""

    connection: AsyncConnection
    id: SessionId
    row: sa.Row[Any]
    fold: Fold
    appended: list[Event] = field(default_factory=list[Event])
    delivering: bool = False
    _touched: dict[TurnId, Turn] = field(default_factory=dict[TurnId, Turn])
    _stored_turns: int = 0

    def __post_init__(self) -> None:
        self._stored_turns = self.fold.turn_count

    async def append(
        self,
        new: Sequence[NewEvent],
        at: datetime,
        turn_id: TurnId | None = None,
        *,
        request_hash: str | None = None,
    ) -> list[Event]:
        """Append what is not there yet; in the place of a key that is, the event it was appended with."""
        known = await self._known([each.key for each in new if each.key is not None])
        added: list[Event] = []
        result: list[Event] = []
        values: list[dict[str, Any]] = []
        contents: list[dict[str, Any]] = []
        for each in new:
            if each.key is not None and each.key in known:
                result.append(known[each.key])
                continue
            kept = offloaded(each)
            event = self._next(kept, at, turn_id)
            values.append(event_values(event, kept.key, request_hash))
            if kept.content is not None:
                contents.append(_content_values(event, kept))
            if kept.key is not None:
                known[kept.key] = event
            added.append(event)
            result.append(event)
        if added:
            await self.connection.execute(events.insert(), values)
            if contents:
                await self.connection.execute(event_contents.insert(), contents)
            await self._deliver(added)
            self.appended += added
        return result

    def touch(self, turn: Turn) -> Turn:
        """Change what no event says of a turn."""
        same = tuple(turn if each.id == turn.id else each for each in self.fold.open_turns)
        self.fold = replace(self.fold, open_turns=same)
        self._touched[turn.id] = turn
        return turn

    def turn(self, turn_id: TurnId) -> Turn:
        """As it is now, also when it has just ended."""
        return self._touched[turn_id]

    async def save(self, at: datetime, **values: Any) -> None:
        """Write the fold, the turns that changed, and `values` of the session."""
        for turn in sorted(self._touched.values(), key=lambda turn: turn.ordinal):
            if turn.ordinal > self._stored_turns:
                await self.connection.execute(turns.insert().values(turn_values(turn)))
            else:
                await self.connection.execute(
                    turns.update().where(turns.c.id == turn.id).values(turn_values(turn))
                )
        changed = fold_values(self.fold) | {"updated_at": at} | values
        await self.connection.execute(sessions.update().where(sessions.c.id == self.id).values(changed))

    async def session(self) -> Session:
        """As it was saved."""
        query = sa.select(sessions).where(sessions.c.id == self.id)
        row = (await self.connection.execute(query)).one()
        return (await with_last_turns(self.connection, [row]))[0]

    def _next(self, new: NewEvent, at: datetime, turn_id: TurnId | None) -> Event:
        event = Event(
            id=new_event_id(),
            session_id=self.id,
            seq=self.fold.head + 1,
            at=at,
            type=new.type,
            level=new.level,
            body=new.body,
            actor=new.actor,
            turn_id=turn_id,
            refs=new.refs,
            source=new.source,
            content_ref=None if new.content is None else content_ref(new.content),
            body_bytes=None if new.content is None else len(new.content.data),
        )
        self.fold, turn = after(self.fold, event)
        if turn is not None:
            self._touched[turn.id] = turn
        return event

    async def _known(self, keys: Sequence[str]) -> dict[str, Event]:
        known: dict[str, Event] = {}
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[start : start + _KEYS_AT_ONCE]
            query = sa.select(events).where(events.c.session_id == self.id, events.c.key.in_(some))
            known |= {row.key: event_of(row) for row in await self.connection.execute(query)}
        return known

    async def _deliver(self, added: Sequence[Event]) -> None:
        query = sa.select(destinations).where(
            destinations.c.session_id == self.id, destinations.c.enabled.is_(True)
        )
        listening = [destination_of(row) for row in await self.connection.execute(query)]
        rows = [
            delivery_values(
                Delivery(
                    id=new_delivery_id(),
                    session_id=self.id,
                    destination_id=destination.id,
                    event_id=event.id,
                    event_seq=event.seq,
                    status=DeliveryStatus.PENDING,
                    attempts=0,
                    budget=ATTEMPTS,
                    due_at=event.at,
                    last_attempt_at=None,
                    response_code=None,
                    error=None,
                    created_at=event.at,
                    updated_at=event.at,
                )
            )
            for event in added
            for destination in listening
            if wants(destination, event)
        ]
        if rows:
            await self.connection.execute(deliveries.insert(), rows)
            self.delivering = True


async def open_session(connection: AsyncConnection, session_id: SessionId) -> OpenSession:
    """Lock a session. Raises NotFound."""
    locked = sa.select(sessions).where(sessions.c.id == session_id).with_for_update()
    row = (await connection.execute(locked)).first()
    if row is None:
        raise NotFound("there is no such session")
    # In a statement of its own: only what is read after the lock was taken is sure to be current.
    query = (
        sa.select(turns)
        .where(turns.c.session_id == session_id, turns.c.state.in_(_OPEN))
        .order_by(turns.c.ordinal)
    )
    waiting = tuple(turn_of(each) for each in await connection.execute(query))
    return OpenSession(connection, session_id, row, fold_of(row, waiting))


async def with_last_turns(connection: AsyncConnection, rows: Sequence[sa.Row[Any]]) -> list[Session]:
    """Sessions with their newest turns."""
    if not rows:
        return []
    newest = [(row.id, row.turn_count) for row in rows]
    query = sa.select(turns).where(sa.tuple_(turns.c.session_id, turns.c.ordinal).in_(newest))
    found = {each.session_id: turn_of(each) for each in await connection.execute(query)}
    return [session_of(row, found.get(row.id)) for row in rows]


def _content_values(event: Event, new: NewEvent) -> dict[str, Any]:
    assert new.content is not None
    return {
        "session_id": event.session_id,
        "event_id": event.id,
        "media_type": new.content.media_type,
        "data": new.content.data,
    }
