"""Tables of what is on its way to destinations: who may be sent something now, and when somebody may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from opencomputer.server.domain.webhooks.attempts import DeliveryStatus, Dispatch
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

    async def settle(self, database: Database, held: Dispatch, values: Mapping[str, Any]) -> None:
        """What became of one that was given out as `held`.

        One that was asked for again, or given up, stays so, also when it has been given out again meanwhile.
        """
        table = self.deliveries.c
        still = (table.status == DeliveryStatus.DELIVERING) & (table.due_at == held.due_at)
        await database.run(self.deliveries.update().where(table.id == held.id, still).values(values))

    async def next_due(self, database: Database) -> datetime | None:
        table, first = self.deliveries.c, self._first_of_lines()
        query = (
            sa.select(table.due_at)
            .select_from(self._with_line(first))
            .where(self._may_go(first), table.due_at.is_not(None))
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
        table, first, held = self.deliveries.c, self._first_of_lines(), self._held(now)
        place = sa.func.row_number().over(partition_by=table.destination_id, order_by=self._order)
        ranked = (
            sa.select(table.id, (place + sa.func.coalesce(held.c.count, 0)).label("place"))
            .select_from(self._with_line(first))
            .outerjoin(held, held.c.destination_id == table.destination_id)
            .where(self._may_go(first), table.due_at <= now)
            .subquery()
        )
        return sa.select(ranked.c.id).where(ranked.c.place <= each)

    # There may be very many of one destination. So what is to be known of others is found in one pass over
    # what is on its way, and not anew for each.

    def _held(self, now: datetime) -> sa.Subquery:
        """How many of each destination are being sent."""
        table = self.deliveries.c
        sent = (table.status == DeliveryStatus.DELIVERING) & (table.due_at > now)
        query = sa.select(table.destination_id, sa.func.count().label("count")).where(sent)
        return query.group_by(table.destination_id).subquery()

    def _first_of_lines(self) -> sa.Subquery:
        """Where the earliest stands of those in each line that wait for their first attempt."""
        table = self.deliveries.c
        line = [table[name] for name in self.line]
        first = sa.func.min(table[self.position]).label("position")
        waits = (table.attempts == 0) & table.status.in_(_FIRST_TRIES) & table.due_at.is_not(None)
        return sa.select(*line, first).where(waits).group_by(*line).subquery()

    def _with_line(self, first: sa.Subquery) -> sa.Join:
        table = self.deliveries.c
        same = sa.and_(*(first.c[name] == table[name] for name in self.line))
        joined = self.deliveries.join(self.destinations, self.destinations.c.id == table.destination_id)
        return joined.outerjoin(first, same)

    def _may_go(self, first: sa.Subquery) -> sa.ColumnElement[bool]:
        """Due to an enabled destination, and no first attempt while an earlier one waits for its own."""
        table = self.deliveries.c
        at_the_head = table[self.position] <= first.c.position
        return self.destinations.c.enabled.is_(True) & ((table.attempts > 0) | at_the_head)
