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
    DeliveryStatus,
)
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.sessions.rows import delivery_of, delivery_values
from opencomputer.server.stores.sql.sessions.schema import deliveries, destinations
from opencomputer.wire.ids import DeliveryId, SessionId

_NEVER_CHANGED = {"id", "session_id", "destination_id", "event_id", "event_seq", "created_at"}
_FIRST_TRIES = [DeliveryStatus.PENDING, DeliveryStatus.DELIVERING]


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
        query = (
            sa.select(deliveries)
            # The time again: what another node has taken meanwhile is not due any more.
            .where(deliveries.c.id.in_(_due(now, each)), deliveries.c.due_at <= now)
            .order_by(deliveries.c.due_at, deliveries.c.event_seq, deliveries.c.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        async with self._database.write() as connection:
            due = [delivery_of(row) for row in await connection.execute(query)]
            if due:
                chosen = deliveries.c.id.in_([each.id for each in due])
                held = {"status": DeliveryStatus.DELIVERING, "due_at": until, "updated_at": now}
                await connection.execute(deliveries.update().where(chosen).values(held))
        return [replace(each, status=DeliveryStatus.DELIVERING, due_at=until, updated_at=now) for each in due]

    async def settle(self, delivery: Delivery) -> None:
        values = {
            name: value for name, value in delivery_values(delivery).items() if name not in _NEVER_CHANGED
        }
        # One that was asked for again meanwhile stays asked for.
        held = (deliveries.c.id == delivery.id) & (deliveries.c.status == DeliveryStatus.DELIVERING)
        await self._database.run(deliveries.update().where(held).values(values))
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
        query = (
            sa.select(deliveries.c.due_at)
            .join(destinations, destinations.c.id == deliveries.c.destination_id)
            .where(_may_go(), deliveries.c.due_at.is_not(None))
            .order_by(deliveries.c.due_at)
            .limit(1)
        )
        row = await self._database.first(query)
        return None if row is None else row.due_at


def _due(now: datetime, each: int) -> sa.Select[tuple[str]]:
    """Ids of what may be taken, so that no destination has more than `each` at once."""
    other = deliveries.alias("other")
    held = sa.select(sa.func.count()).where(
        other.c.destination_id == deliveries.c.destination_id,
        other.c.status == DeliveryStatus.DELIVERING,
        other.c.due_at > now,
    )
    order = (deliveries.c.due_at, deliveries.c.event_seq, deliveries.c.id)
    place = sa.func.row_number().over(partition_by=deliveries.c.destination_id, order_by=order)
    ranked = (
        sa.select(deliveries.c.id, (place + held.scalar_subquery()).label("place"))
        .join(destinations, destinations.c.id == deliveries.c.destination_id)
        .where(_may_go(), deliveries.c.due_at <= now)
        .subquery()
    )
    return sa.select(ranked.c.id).where(ranked.c.place <= each)


def _may_go() -> sa.ColumnElement[bool]:
    """Due to an enabled destination, and no first attempt while an earlier event waits for its own."""
    earlier = deliveries.alias("earlier")
    waits = sa.exists().where(
        earlier.c.destination_id == deliveries.c.destination_id,
        earlier.c.event_seq < deliveries.c.event_seq,
        earlier.c.attempts == 0,
        earlier.c.status.in_(_FIRST_TRIES),
    )
    return destinations.c.enabled.is_(True) & ((deliveries.c.attempts > 0) | ~waits)
