"""Organisations in SQL."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from opencomputer.server.domain.access import Organisation
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.tables import organisations
from opencomputer.wire.ids import OrgId


class SqlOrganisationStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, organisation: Organisation) -> None:
        await self._database.run(organisations.insert().values(asdict(organisation)))

    async def get(self, org_id: OrgId) -> Organisation | None:
        return await self._one(sa.select(organisations).where(organisations.c.id == org_id))

    async def first(self) -> Organisation | None:
        oldest = organisations.c.created_at, organisations.c.id
        return await self._one(sa.select(organisations).order_by(*oldest).limit(1))

    async def _one(self, query: sa.Select[Any]) -> Organisation | None:
        row = await self._database.first(query)
        return None if row is None else Organisation(OrgId(row.id), row.name, row.created_at)

    async def count(self) -> int:
        async with self._database.read() as connection:
            return (
                await connection.execute(sa.select(sa.func.count()).select_from(organisations))
            ).scalar_one()
