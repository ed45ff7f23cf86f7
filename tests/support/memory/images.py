"""Stores of images in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from opencomputer.server.contracts.images import PrefixRow
from opencomputer.server.domain.builds import BuildState, ImageRow, NamedSnapshot
from opencomputer.server.domain.errors import Conflict
from opencomputer.wire.ids import OrgId, SnapshotId

Key = tuple[OrgId, str]


async def _a_moment() -> None:
    """Others have their turn meanwhile, as they have while a database works."""
    await asyncio.sleep(0)


@dataclass
class ImageTables:
    """What the stores of one database share."""

    images: dict[Key, ImageRow] = field(default_factory=dict[Key, ImageRow])
    prefixes: dict[Key, PrefixRow] = field(default_factory=dict[Key, PrefixRow])
    named: dict[SnapshotId, NamedSnapshot] = field(default_factory=dict[SnapshotId, NamedSnapshot])
    manifests: dict[SnapshotId, str] = field(default_factory=dict[SnapshotId, str])


class MemoryImages:
    def __init__(self, tables: ImageTables) -> None:
        self._rows = tables.images

    async def begin(self, row: ImageRow) -> None:
        await _a_moment()
        self._rows[row.org_id, row.key] = row

    async def ready(self, org_id: OrgId, key: str, snapshot_id: SnapshotId) -> None:
        await _a_moment()
        if row := self._rows.get((org_id, key)):
            self._rows[org_id, key] = replace(row, state=BuildState.READY, snapshot_id=snapshot_id)

    async def get(self, org_id: OrgId, key: str) -> ImageRow | None:
        await _a_moment()
        return self._rows.get((org_id, key))

    async def used(self, org_id: OrgId, key: str, at: datetime) -> None:
        await _a_moment()
        if row := self._rows.get((org_id, key)):
            self._rows[org_id, key] = replace(row, last_used_at=at)

    async def remove(self, org_id: OrgId, key: str) -> None:
        await _a_moment()
        self._rows.pop((org_id, key), None)

    async def list(self, org_id: OrgId) -> Sequence[ImageRow]:
        rows = await self.all()
        return [row for row in rows if row.org_id == org_id and row.state is BuildState.READY]

    async def all(self) -> Sequence[ImageRow]:
        await _a_moment()
        by_key = sorted(self._rows.values(), key=lambda row: row.key)
        return sorted(by_key, key=lambda row: row.created_at, reverse=True)


class MemoryPrefixes:
    def __init__(self, tables: ImageTables) -> None:
        self._rows = tables.prefixes

    async def find(self, org_id: OrgId, keys: Sequence[str]) -> Mapping[str, SnapshotId]:
        await _a_moment()
        return {key: row.snapshot_id for key in keys if (row := self._rows.get((org_id, key)))}

    async def keep(self, row: PrefixRow) -> None:
        await _a_moment()
        self._rows[row.org_id, row.key] = row

    async def used(self, org_id: OrgId, key: str, at: datetime) -> None:
        await _a_moment()
        if row := self._rows.get((org_id, key)):
            self._rows[org_id, key] = replace(row, last_used_at=at)

    async def remove(self, org_id: OrgId, key: str) -> None:
        await _a_moment()
        self._rows.pop((org_id, key), None)

    async def all(self) -> Sequence[PrefixRow]:
        await _a_moment()
        return list(self._rows.values())


class MemoryNamedSnapshots:
    def __init__(self, tables: ImageTables) -> None:
        self._rows = tables.named
        self._manifests = tables.manifests

    async def reserve(self, row: NamedSnapshot, manifest: str) -> None:
        await _a_moment()
        earlier = self._by_name(row.org_id, row.name)
        if earlier is not None:
            if earlier.state is not BuildState.FAILED:
                raise Conflict("there is a snapshot of this name already", field="name")
            del self._rows[earlier.id]
        self._rows[row.id] = row
        self._manifests[row.id] = manifest

    async def manifest(self, named_id: SnapshotId) -> str | None:
        await _a_moment()
        return self._manifests.get(named_id)

    async def settle(
        self, named_id: SnapshotId, state: BuildState, snapshot_id: SnapshotId | None, error: str | None
    ) -> bool:
        return await self._change(named_id, state=state, snapshot_id=snapshot_id, error=error)

    async def get(self, org_id: OrgId, name: str) -> NamedSnapshot | None:
        await _a_moment()
        return self._by_name(org_id, name)

    async def list(self, org_id: OrgId) -> Sequence[NamedSnapshot]:
        return [row for row in await self.all() if row.org_id == org_id]

    async def used(self, named_id: SnapshotId, at: datetime) -> None:
        await self._change(named_id, last_used_at=at)

    async def publish(self, named_id: SnapshotId, public: bool) -> None:
        await self._change(named_id, is_public=public)

    async def remove(self, org_id: OrgId, name: str) -> bool:
        await _a_moment()
        row = self._by_name(org_id, name)
        return row is not None and self._rows.pop(row.id, None) is not None

    async def all(self) -> Sequence[NamedSnapshot]:
        await _a_moment()
        return sorted(self._rows.values(), key=lambda row: (row.created_at, row.id), reverse=True)

    def _by_name(self, org_id: OrgId, name: str) -> NamedSnapshot | None:
        return next((row for row in self._rows.values() if (row.org_id, row.name) == (org_id, name)), None)

    async def _change(self, named_id: SnapshotId, **values: object) -> bool:
        await _a_moment()
        row = self._rows.get(named_id)
        if row is not None:
            self._rows[named_id] = replace(row, **values)  # pyright: ignore[reportArgumentType] - names are fields
        return row is not None
