"""The log of what sandboxes reached, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from opencomputer.server.contracts.egress import EgressEvent, EgressQuery, RecordedEvent
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.tables import egress_events
from opencomputer.wire.ids import OrgId, SandboxId

_PRUNED_AT_ONCE = 10_000
"""So that others get their turn to write in between."""

_columns = egress_events.c


class SqlEgressEventStore:
    """Implements EgressEventStore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, events: Sequence[EgressEvent]) -> None:
        if not events:
            return
        values = [_values(event) for event in events]
        async with self._database.write() as connection:
            await connection.execute(egress_events.insert(), values)

    async def find(self, query: EgressQuery) -> Sequence[RecordedEvent]:
        wanted = [
            _columns.org_id == query.org_id,
            _columns.sandbox_id == query.sandbox_id,
            _columns.position > query.after,
        ]
        if query.decision is not None:
            wanted.append(_columns.decision == query.decision)
        if query.host is not None:
            wanted.append(_of_host(query.host))
        select = sa.select(egress_events).where(*wanted).order_by(_columns.position).limit(query.limit)
        return [RecordedEvent(row.position, _event(row)) for row in await self._database.rows(select)]

    async def prune(self, before: datetime, *, keep: int) -> int:
        newest = await self._database.first(sa.select(sa.func.max(_columns.position).label("newest")))
        if newest is None or newest.newest is None:
            return 0
        old = sa.or_(_columns.at < before, _columns.position <= newest.newest - keep)
        some = sa.select(_columns.position).where(old).order_by(_columns.position).limit(_PRUNED_AT_ONCE)
        pruned = 0
        while True:
            done = await self._database.run(egress_events.delete().where(_columns.position.in_(some)))
            pruned += done
            if done < _PRUNED_AT_ONCE:
                return pruned


def _of_host(pattern: str) -> sa.ColumnElement[bool]:
    if pattern.startswith("*."):
        return _columns.host.endswith(pattern[1:], autoescape=True)
    return _columns.host == pattern


def _values(event: EgressEvent) -> dict[str, Any]:
    return {**asdict(event), "secrets": list(event.secrets), "withheld": list(event.withheld)}


def _event(row: sa.Row[Any]) -> EgressEvent:
    return EgressEvent(
        at=row.at,
        org_id=OrgId(row.org_id),
        sandbox_id=SandboxId(row.sandbox_id),
        protocol=row.protocol,
        host=row.host,
        port=row.port,
        decision=row.decision,
        reason=row.reason,
        address=row.address,
        intercepted=row.intercepted,
        secrets=tuple(row.secrets),
        withheld=tuple(row.withheld),
        bytes_out=row.bytes_out,
        bytes_in=row.bytes_in,
        lost=row.lost,
    )
