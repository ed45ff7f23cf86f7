"""Deliveries in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import sqlalchemy as sa

from opencomputer.server.contracts.sessions import SessionSignals
from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sessions.destinations import (
    ATTEMPTS,
    Delivery,
    DeliveryFilter,
)
from opencomputer.server.domain.webhooks.attempts import DeliveryStatus
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.outbox import Outbox
from opencomputer.server.stores.sql.sessions.rows import delivery_of, delivery_values
from opencomputer.server.stores.sql.sessions.schema import deliveries, destinations
from opencomputer.wire.ids import DeliveryId, SessionId

_NEVER_CHANGED = {"id", "session_id", "destination_id", "event_id", "event_seq", "created_at"}
_OUTBOX = Outbox(deliveries, destinations, "event_seq", ("destination_id",))


class SqlDeliveryStore:
    """Implements DeliveryStore."""

    def __init__(self, database: Database, signals: SessionSignals) -> None:
        self._database = database
        self._signals = signals

    async def list(
        self, session_id: SessionId, wanted: DeliveryFilter, *, limit: int, after: Delivery | None = None
    ) -> Sequence[Delivery]:
        query = sa.select(deliveries).where(deliveries.c.session_id == session_id)
        if wanted.destination_id is not None:
            query = query.where(deliveries.c.destination_id == wanted.destination_id)
        if wanted.status is not None:
            query = query.where(deliveries.c.status == wanted.status)
        if after is not None:
            place = sa.tuple_(deliveries.c.event_seq, deliveries.c.id)
            query = query.where(place < sa.tuple_(sa.literal(after.event_seq), sa.literal(after.id)))
        newest_first = (deliveries.c.event_seq.desc(), deliveries.c.id.desc())
        rows = await self._database.rows(query.order_by(*newest_first).limit(limit))
        return [delivery_of(row) for row in rows]

    async def get(self, session_id: SessionId, delivery_id: DeliveryId) -> Delivery | None:
        mine = (deliveries.c.session_id == session_id) & (deliveries.c.id == delivery_id)
        row = await self._database.first(sa.select(deliveries).where(mine))
        return None if row is None else delivery_of(row)

    async def claim(self, now: datetime, until: datetime, *, limit: int, each: int) -> Sequence[Delivery]:
        due = await _OUTBOX.claim(self._database, now, until, limit=limit, each=each)
        held = {"status": DeliveryStatus.DELIVERING, "due_at": until, "updated_at": now}
        return [replace(delivery_of(row), **held) for row in due]

    async def settle(self, held: Delivery, after: Delivery) -> None:
        values = delivery_values(after)
        changing = {name: value for name, value in values.items() if name not in _NEVER_CHANGED}
        await _OUTBOX.settle(self._database, held, changing)
        self._signals.delivery()

    async def redeliver(self, delivery_id: DeliveryId, at: datetime) -> Delivery:
        again = {"status": DeliveryStatus.PENDING, "due_at": at, "budget": ATTEMPTS, "updated_at": at}
        statement = (
            deliveries.update().where(deliveries.c.id == delivery_id).values(again).returning(deliveries)
        )
        async with self._database.write() as connection:
            row = (await connection.execute(statement)).first()
        if row is None:
            raise NotFound("there is no such delivery")
        self._signals.delivery()
        return delivery_of(row)

    async def next_due(self) -> datetime | None:
        return await _OUTBOX.next_due(self._database)
