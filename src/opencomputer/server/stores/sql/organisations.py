"""Organisations in SQL."""

from __future__ import annotations

import sqlalchemy as sa

from opencomputer.server.domain.access import Organisation
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.tables import organisations
from opencomputer.wire.ids import OrgId


class SqlOrganisationStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, organisation: Organisation) -> None:
        async with self._database.write() as connection:
            await connection.execute(
                organisations.insert().values(
                    id=organisation.id, name=organisation.name, created_at=organisation.created_at
                )
            )

    async def get(self, org_id: OrgId) -> Organisation | None:
        async with self._database.read() as connection:
            row = (
                await connection.execute(sa.select(organisations).where(organisations.c.id == org_id))
            ).first()
        return None if row is None else Organisation(OrgId(row.id), row.name, row.created_at)

    async def count(self) -> int:
        async with self._database.read() as connection:
            return (
                await connection.execute(sa.select(sa.func.count()).select_from(organisations))
            ).scalar_one()
