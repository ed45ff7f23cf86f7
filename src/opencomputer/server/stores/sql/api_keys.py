"""API keys in SQL: only hashes are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from opencomputer.server.domain.access import ApiKey
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.tables import api_keys
from opencomputer.wire.ids import ApiKeyId, OrgId


class SqlApiKeyStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, key: ApiKey) -> None:
        await self._database.run(api_keys.insert().values(asdict(key)))

    async def by_hash(self, key_hash: str) -> ApiKey | None:
        row = await self._database.first(sa.select(api_keys).where(api_keys.c.hash == key_hash))
        return None if row is None else _api_key(row)

    async def list(self, org_id: OrgId) -> Sequence[ApiKey]:
        query = sa.select(api_keys).where(api_keys.c.org_id == org_id).order_by(api_keys.c.created_at)
        return [_api_key(row) for row in await self._database.rows(query)]

    async def revoke(self, org_id: OrgId, key_id: ApiKeyId, at: datetime) -> bool:
        mine = (api_keys.c.id == key_id) & (api_keys.c.org_id == org_id)
        async with self._database.write() as connection:
            await connection.execute(
                api_keys.update().where(mine & api_keys.c.revoked_at.is_(None)).values(revoked_at=at)
            )
            return (await connection.execute(sa.select(api_keys.c.id).where(mine))).first() is not None

    async def used(self, key_id: ApiKeyId, at: datetime) -> None:
        await self._database.run(api_keys.update().where(api_keys.c.id == key_id).values(last_used_at=at))


def _api_key(row: sa.Row[Any]) -> ApiKey:
    return ApiKey(
        id=ApiKeyId(row.id),
        org_id=OrgId(row.org_id),
        name=row.name,
        prefix=row.prefix,
        hash=row.hash,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        revoked_at=row.revoked_at,
    )
