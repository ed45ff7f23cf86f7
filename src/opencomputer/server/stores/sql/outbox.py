"""Tables of what is on its way to destinations: who may be sent something now, and when somebody may."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from opencomputer.server.domain.webhooks.attempts import DeliveryStatus
from opencomputer.server.stores.sql.database import Database

_FIRST_TRIES = [DeliveryStatus.PENDING, DeliveryStatus.DELIVERING]


@dataclass(frozen=True)
class Outbox:
    """Deliveries and their destinations. `position` is the column that orders them.

    First attempts of those that agree in `line` are given out in that order, one at a time.
    """

    deliveries: sa.Table
    destinations: sa.Table
    position: str
    line: tuple[str, ...]

    async def claim(
        self, database: Database, now: datetime, until: datetime, *, limit: int, each: int
    ) -> Sequence[sa.Row[Any]]:
        """Rows as they were before they were held."""
        table = self.deliveries.c
        query = (
            sa.select(self.deliveries)
            # The time again: what another node has taken meanwhile is not due any more.
            .where(table.id.in_(self._due(now, each)), table.due_at <= now)
            .order_by(*self._order)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        async with database.write() as connection:
            due = (await connection.execute(query)).all()
            if due:
                held = {"status": DeliveryStatus.DELIVERING, "due_at": until, "updated_at": now}
                chosen = table.id.in_([row.id for row in due])
                await connection.execute(self.deliveries.update().where(chosen).values(held))
        return due

    async def next_due(self, database: Database) -> datetime | None:
        table = self.deliveries.c
        query = (
            sa.select(table.due_at)
            .join(self.destinations, self.destinations.c.id == table.destination_id)
            .where(self._may_go(), table.due_at.is_not(None))
            .order_by(table.due_at)
            .limit(1)
        )
        row = await database.first(query)
        return None if row is None else row.due_at

    @property
    def _order(self) -> tuple[sa.ColumnElement[Any], ...]:
        table = self.deliveries.c
        return table.due_at, table[self.position], table.id

    def _due(self, now: datetime, each: int) -> sa.Select[tuple[str]]:
        """Ids of what may be taken, so that no destination has more than `each` at once."""
        table, other = self.deliveries.c, self.deliveries.alias("other")
        held = sa.select(sa.func.count()).where(
            other.c.destination_id == table.destination_id,
            other.c.status == DeliveryStatus.DELIVERING,
            other.c.due_at > now,
        )
        place = sa.func.row_number().over(partition_by=table.destination_id, order_by=self._order)
        ranked = (
            sa.select(table.id, (place + held.scalar_subquery()).label("place"))
            .join(self.destinations, self.destinations.c.id == table.destination_id)
            .where(self._may_go(), table.due_at <= now)
            .subquery()
        )
        return sa.select(ranked.c.id).where(ranked.c.place <= each)

    def _may_go(self) -> sa.ColumnElement[bool]:
        """Due to an enabled destination, and no first attempt while an earlier one waits for its own."""
        table, earlier = self.deliveries.c, self.deliveries.alias("earlier")
        waits = sa.exists().where(
            *(earlier.c[name] == table[name] for name in self.line),
            earlier.c[self.position] < table[self.position],
            earlier.c.attempts == 0,
            earlier.c.status.in_(_FIRST_TRIES),
        )
        return self.destinations.c.enabled.is_(True) & ((table.attempts > 0) | ~waits)
