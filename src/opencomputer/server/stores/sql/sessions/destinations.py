"""Destinations in SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from opencomputer.server.contracts.sessions import SessionSignals
from opencomputer.server.domain.sessions.destinations import Destination
from opencomputer.server.domain.sessions.errors import LimitReached, SessionArchived
from opencomputer.server.domain.sessions.webhooks import SigningSecretPlace
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.sessions.appending import open_session
from opencomputer.server.stores.sql.sessions.rows import destination_of, destination_values
from opencomputer.server.stores.sql.sessions.schema import deliveries, destinations
from opencomputer.server.stores.sql.signing_secrets import SqlSigningSecrets
from opencomputer.wire.ids import DestinationId, SessionId

_NEVER_CHANGED = {"id", "session_id", "created_after_seq", "created_at"}


class SqlDestinationStore:
    """Implements DestinationStore."""

    def __init__(self, database: Database, signals: SessionSignals) -> None:
        self._database = database
        self._signals = signals

    async def add(self, destination: Destination, *, most: int) -> Destination:
        mine = destinations.c.session_id == destination.session_id
        async with self._database.write() as connection:
            opened = await open_session(connection, destination.session_id)
            if opened.row.status == "archived":
                raise SessionArchived
            count = (await connection.execute(sa.select(sa.func.count()).where(mine))).scalar_one()
            if count >= most:
                raise LimitReached(f"a session has at most {most} destinations", limit=most)
            added = replace(destination, created_after_seq=opened.fold.head)
            await connection.execute(destinations.insert().values(destination_values(added)))
            return added

    async def list(self, session_id: SessionId) -> Sequence[Destination]:
        query = sa.select(destinations).where(destinations.c.session_id == session_id)
        rows = await self._database.rows(query.order_by(destinations.c.created_at, destinations.c.id))
        return [destination_of(row) for row in rows]

    async def get(self, session_id: SessionId, destination_id: DestinationId) -> Destination | None:
        query = sa.select(destinations).where(_is(session_id, destination_id))
        row = await self._database.first(query)
        return None if row is None else destination_of(row)

    async def change(
        self,
        session_id: SessionId,
        destination_id: DestinationId,
        decide: Callable[[Destination], Destination],
    ) -> Destination | None:
        mine = _is(session_id, destination_id)
        async with self._database.write() as connection:
            row = (await connection.execute(sa.select(destinations).where(mine).with_for_update())).first()
            if row is None:
                return None
            after = decide(destination_of(row))
            values = destination_values(after)
            changing = {name: value for name, value in values.items() if name not in _NEVER_CHANGED}
            await connection.execute(destinations.update().where(mine).values(changing))
        if after.enabled:
            # What waited while it was disabled goes on.
            self._signals.delivery()
        return after

    async def delete(self, session_id: SessionId, destination_id: DestinationId) -> bool:
        mine = _is(session_id, destination_id)
        async with self._database.write() as connection:
            # Who appends meanwhile must not write a delivery to what is about to go.
            await open_session(connection, session_id)
            if (await connection.execute(sa.select(destinations.c.id).where(mine))).first() is None:
                return False
            of_it = deliveries.c.destination_id == destination_id
            await connection.execute(deliveries.delete().where(of_it))
            await connection.execute(destinations.delete().where(mine))
            return True


def _is(session_id: SessionId, destination_id: DestinationId) -> sa.ColumnElement[bool]:
    return (destinations.c.session_id == session_id) & (destinations.c.id == destination_id)


def session_signing_secrets(database: Database) -> SqlSigningSecrets:
    """The secrets of all destinations of sessions."""
    return SqlSigningSecrets(database, destinations, _place_of)


def _place_of(row: sa.Row[Any]) -> SigningSecretPlace:
    return SigningSecretPlace(SessionId(row.session_id), DestinationId(row.id))
