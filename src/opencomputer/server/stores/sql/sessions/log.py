"""Reading the log."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from opencomputer.server.domain.sessions.events import Content, Event, EventFilter, Level
from opencomputer.server.domain.sessions.patterns import Part, type_pattern
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.sessions.rows import event_of
from opencomputer.server.stores.sql.sessions.schema import event_contents, events, sessions
from opencomputer.wire.ids import EventId, SessionId


class SqlEventLog:
    """Implements EventLog."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(
        self, session_id: SessionId, wanted: EventFilter, *, after: int, limit: int
    ) -> Sequence[Event]:
        query = (
            sa.select(events)
            .where(events.c.session_id == session_id, events.c.seq > after, *_conditions(wanted))
            .order_by(events.c.seq)
            .limit(limit)
        )
        return [event_of(row) for row in await self._database.rows(query)]

    async def head(self, session_id: SessionId) -> int:
        row = await self._database.first(sa.select(sessions.c.head).where(sessions.c.id == session_id))
        return 0 if row is None else row.head

    async def event(self, session_id: SessionId, event_id: EventId) -> Event | None:
        mine = (events.c.session_id == session_id) & (events.c.id == event_id)
        row = await self._database.first(sa.select(events).where(mine))
        return None if row is None else event_of(row)

    async def content(self, session_id: SessionId, event_id: EventId) -> Content | None:
        mine = (event_contents.c.session_id == session_id) & (event_contents.c.event_id == event_id)
        row = await self._database.first(sa.select(event_contents).where(mine))
        return None if row is None else Content(row.media_type, row.data)


def _conditions(wanted: EventFilter) -> list[sa.ColumnElement[bool]]:
    conditions: list[sa.ColumnElement[bool]] = []
    if wanted.level is not Level.INTERNAL:
        conditions.append(events.c.level.in_(wanted.level.included))
    if wanted.turn_id is not None:
        conditions.append(events.c.turn_id == wanted.turn_id)
    if wanted.type is not None:
        conditions.append(_of_type(wanted.type))
    return conditions


def _of_type(text: str) -> sa.ColumnElement[bool]:
    # Not LIKE, for which some databases take upper and lower case as the same.
    pattern = type_pattern(text)
    length = len(pattern.text)
    match pattern.part:
        case Part.ALL:
            return sa.true()
        case Part.WHOLE:
            return events.c.type == pattern.text
        case Part.START:
            return sa.func.substr(events.c.type, 1, length) == pattern.text
        case Part.END:
            # Of a type that is shorter it would begin before its start.
            long_enough = sa.func.length(events.c.type) >= length
            start = sa.func.length(events.c.type) - (length - 1)
            return long_enough & (sa.func.substr(events.c.type, start, length) == pattern.text)
