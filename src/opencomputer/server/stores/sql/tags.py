"""Tags of sandboxes in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from opencomputer.server.domain.tags import TagKey, Tags
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.tables import sandboxes
from opencomputer.server.stores.sql.tag_tables import tag_sets, tags
from opencomputer.wire.ids import OrgId, SandboxId


class SqlTagStore:
    """Implements TagStore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, sandbox_id: SandboxId) -> Tags:
        # One statement, so that what is read was there at one time.
        joined = tag_sets.outerjoin(tags, tags.c.sandbox_id == tag_sets.c.sandbox_id)
        query = (
            sa.select(tag_sets.c.updated_at, tags.c.key, tags.c.value)
            .select_from(joined)
            .where(tag_sets.c.sandbox_id == sandbox_id)
            .order_by(tags.c.key)
        )
        rows = await self._database.rows(query)
        if not rows:
            return Tags()
        return Tags({row.key: row.value for row in rows if row.key is not None}, rows[0].updated_at)

    async def put(self, org_id: OrgId, sandbox_id: SandboxId, new: Tags) -> None:
        mine = {"sandbox_id": sandbox_id}
        rows = [{**mine, "org_id": org_id, "key": key, "value": value} for key, value in new.values.items()]
        async with self._database.write() as connection:
            # Whoever puts at the same time waits for this row.
            await connection.execute(
                sa.select(sandboxes.c.id).where(sandboxes.c.id == sandbox_id).with_for_update()
            )
            await connection.execute(tags.delete().where(tags.c.sandbox_id == sandbox_id))
            await connection.execute(tag_sets.delete().where(tag_sets.c.sandbox_id == sandbox_id))
            await connection.execute(tag_sets.insert().values(**mine, updated_at=new.updated_at))
            if rows:
                await connection.execute(tags.insert(), rows)

    async def keys(self, org_id: OrgId) -> Sequence[TagKey]:
        query = (
            sa.select(
                tags.c.key,
                sa.func.count().label("sandboxes"),
                sa.func.count(tags.c.value.distinct()).label("different"),
            )
            .where(tags.c.org_id == org_id)
            .group_by(tags.c.key)
            .order_by(tags.c.key)
        )
        return [TagKey(row.key, row.sandboxes, row.different) for row in await self._database.rows(query)]

    async def values(self, org_id: OrgId, key: str) -> Mapping[SandboxId, str]:
        query = sa.select(tags.c.sandbox_id, tags.c.value).where(tags.c.org_id == org_id, tags.c.key == key)
        return {SandboxId(row.sandbox_id): row.value for row in await self._database.rows(query)}
