"""Stores of organisations and their keys in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from opencomputer.server.domain.access import ApiKey, Organisation
from opencomputer.wire.ids import ApiKeyId, OrgId
from tests.support.memory.stores import Tables


class MemoryOrganisations:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._rows = tables.organisations

    async def add(self, organisation: Organisation) -> None:
        await self._tables.moment("organisations.add")
        self._rows[organisation.id] = organisation

    async def get(self, org_id: OrgId) -> Organisation | None:
        await self._tables.moment("organisations.get")
        return self._rows.get(org_id)

    async def count(self) -> int:
        await self._tables.moment("organisations.count")
        return len(self._rows)

    async def first(self) -> Organisation | None:
        await self._tables.moment("organisations.first")
        return min(self._rows.values(), key=lambda row: (row.created_at, row.id), default=None)


class MemoryApiKeys:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._rows = tables.keys
        self.lookups = 0

    async def add(self, key: ApiKey) -> None:
        await self._tables.moment("keys.add")
        self._rows[key.id] = key

    async def by_hash(self, key_hash: str) -> ApiKey | None:
        await self._tables.moment("keys.by_hash")
        self.lookups += 1
        return next((key for key in self._rows.values() if key.hash == key_hash), None)

    async def list(self, org_id: OrgId) -> Sequence[ApiKey]:
        await self._tables.moment("keys.list")
        mine = [key for key in self._rows.values() if key.org_id == org_id]
        return sorted(mine, key=lambda key: key.created_at)

    async def revoke(self, org_id: OrgId, key_id: ApiKeyId, at: datetime) -> bool:
        await self._tables.moment("keys.revoke")
        key = self._rows.get(key_id)
        if key is None or key.org_id != org_id:
            return False
        self._rows[key_id] = replace(key, revoked_at=key.revoked_at or at)
        return True

    async def used(self, key_id: ApiKeyId, at: datetime) -> None:
        await self._tables.moment("keys.used")
        self._rows[key_id] = replace(self._rows[key_id], last_used_at=at)
