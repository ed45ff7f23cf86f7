"""Images and named snapshots in SQL."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from opencomputer.server.contracts.images import PrefixRow
from opencomputer.server.domain.builds import BuildState, ImageRow, NamedSnapshot
from opencomputer.server.domain.errors import Conflict
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.image_tables import image_prefixes, images, named_snapshots
from opencomputer.wire.ids import OrgId, SnapshotId

_LEVEL = 1
_NAMED_COLUMNS = [column for column in named_snapshots.c if column.name != "manifest"]


class SqlImageStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, row: ImageRow) -> None:
        async with self._database.write() as connection:
            await connection.execute(images.delete().where(_at(images, row.org_id, row.key)))
            await connection.execute(
                images.insert().values(
                    org_id=row.org_id,
                    key=row.key,
                    content_hash=row.content_hash,
                    state=row.state,
                    shown_manifest=row.shown_manifest,
                    created_at=row.created_at,
                    last_used_at=row.last_used_at,
                    snapshot_id=row.snapshot_id,
                )
            )

    async def ready(self, org_id: OrgId, key: str, snapshot_id: SnapshotId) -> None:
        await self._change(org_id, key, state=BuildState.READY, snapshot_id=snapshot_id)

    async def get(self, org_id: OrgId, key: str) -> ImageRow | None:
        found = await self._select(_at(images, org_id, key))
        return found[0] if found else None

    async def used(self, org_id: OrgId, key: str, at: datetime) -> None:
        await self._change(org_id, key, last_used_at=at)

    async def remove(self, org_id: OrgId, key: str) -> None:
        async with self._database.write() as connection:
            await connection.execute(images.delete().where(_at(images, org_id, key)))

    async def list(self, org_id: OrgId) -> Sequence[ImageRow]:
        return await self._select((images.c.org_id == org_id) & (images.c.state == BuildState.READY))

    async def all(self) -> Sequence[ImageRow]:
        return await self._select(sa.true())

    async def _change(self, org_id: OrgId, key: str, **values: object) -> None:
        async with self._database.write() as connection:
            await connection.execute(images.update().where(_at(images, org_id, key)).values(values))

    async def _select(self, condition: sa.ColumnElement[bool]) -> Sequence[ImageRow]:
        query = sa.select(images).where(condition).order_by(images.c.created_at.desc(), images.c.key)
        async with self._database.read() as connection:
            return [_image(row) for row in await connection.execute(query)]


class SqlPrefixStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, org_id: OrgId, keys: Sequence[str]) -> Mapping[str, SnapshotId]:
        query = sa.select(image_prefixes.c.key, image_prefixes.c.snapshot_id).where(
            image_prefixes.c.org_id == org_id, image_prefixes.c.key.in_(keys)
        )
        async with self._database.read() as connection:
            return {row.key: SnapshotId(row.snapshot_id) for row in await connection.execute(query)}

    async def keep(self, row: PrefixRow) -> None:
        async with self._database.write() as connection:
            await connection.execute(image_prefixes.delete().where(_at(image_prefixes, row.org_id, row.key)))
            await connection.execute(
                image_prefixes.insert().values(
                    org_id=row.org_id,
                    key=row.key,
                    snapshot_id=row.snapshot_id,
                    last_used_at=row.last_used_at,
                )
            )

    async def used(self, org_id: OrgId, key: str, at: datetime) -> None:
        async with self._database.write() as connection:
            await connection.execute(
                image_prefixes.update().where(_at(image_prefixes, org_id, key)).values(last_used_at=at)
            )

    async def remove(self, org_id: OrgId, key: str) -> None:
        async with self._database.write() as connection:
            await connection.execute(image_prefixes.delete().where(_at(image_prefixes, org_id, key)))

    async def all(self) -> Sequence[PrefixRow]:
        async with self._database.read() as connection:
            return [
                PrefixRow(OrgId(row.org_id), row.key, SnapshotId(row.snapshot_id), row.last_used_at)
                for row in await connection.execute(sa.select(image_prefixes))
            ]


class SqlNamedSnapshotStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def reserve(self, row: NamedSnapshot, manifest: str) -> None:
        packed = await asyncio.to_thread(zlib.compress, manifest.encode(), _LEVEL)
        mine = _named(row.org_id, row.name)
        try:
            async with self._database.write() as connection:
                failed = named_snapshots.c.state == BuildState.FAILED
                await connection.execute(named_snapshots.delete().where(mine, failed))
                await connection.execute(named_snapshots.insert().values(_named_values(row, packed)))
        except IntegrityError as error:
            raise Conflict("there is a snapshot of this name already", field="name") from error

    async def manifest(self, named_id: SnapshotId) -> str | None:
        query = sa.select(named_snapshots.c.manifest).where(named_snapshots.c.id == named_id)
        async with self._database.read() as connection:
            packed = (await connection.execute(query)).scalar_one_or_none()
        return None if packed is None else (await asyncio.to_thread(zlib.decompress, packed)).decode()

    async def settle(
        self, named_id: SnapshotId, state: BuildState, snapshot_id: SnapshotId | None, error: str | None
    ) -> bool:
        return await self._change(named_id, state=state, snapshot_id=snapshot_id, error=error)

    async def get(self, org_id: OrgId, name: str) -> NamedSnapshot | None:
        found = await self._select(_named(org_id, name))
        return found[0] if found else None

    async def list(self, org_id: OrgId) -> Sequence[NamedSnapshot]:
        return await self._select(named_snapshots.c.org_id == org_id)

    async def used(self, named_id: SnapshotId, at: datetime) -> None:
        await self._change(named_id, last_used_at=at)

    async def publish(self, named_id: SnapshotId, public: bool) -> None:
        await self._change(named_id, is_public=public)

    async def remove(self, org_id: OrgId, name: str) -> bool:
        async with self._database.write() as connection:
            result = await connection.execute(named_snapshots.delete().where(_named(org_id, name)))
            return result.rowcount > 0

    async def all(self) -> Sequence[NamedSnapshot]:
        return await self._select(sa.true())

    async def _change(self, named_id: SnapshotId, **values: object) -> bool:
        async with self._database.write() as connection:
            result = await connection.execute(
                named_snapshots.update().where(named_snapshots.c.id == named_id).values(values)
            )
            return result.rowcount > 0

    async def _select(self, condition: sa.ColumnElement[bool]) -> Sequence[NamedSnapshot]:
        order = named_snapshots.c.created_at.desc(), named_snapshots.c.id.desc()
        async with self._database.read() as connection:
            query = sa.select(*_NAMED_COLUMNS).where(condition).order_by(*order)
            return [_named_snapshot(row) for row in await connection.execute(query)]


def _at(table: sa.Table, org_id: OrgId, key: str) -> sa.ColumnElement[bool]:
    return (table.c.org_id == org_id) & (table.c.key == key)


def _named(org_id: OrgId, name: str) -> sa.ColumnElement[bool]:
    return (named_snapshots.c.org_id == org_id) & (named_snapshots.c.name == name)


def _image(row: sa.Row[Any]) -> ImageRow:
    return ImageRow(
        org_id=OrgId(row.org_id),
        key=row.key,
        content_hash=row.content_hash,
        state=BuildState(row.state),
        shown_manifest=row.shown_manifest,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        snapshot_id=None if row.snapshot_id is None else SnapshotId(row.snapshot_id),
    )


def _named_values(row: NamedSnapshot, manifest: bytes) -> dict[str, Any]:
    return {
        "id": row.id,
        "org_id": row.org_id,
        "name": row.name,
        "state": row.state,
        "content_hash": row.content_hash,
        "shown_manifest": row.shown_manifest,
        "manifest": manifest,
        "created_at": row.created_at,
        "last_used_at": row.last_used_at,
        "snapshot_id": row.snapshot_id,
        "is_public": row.is_public,
        "error": row.error,
    }


def _named_snapshot(row: sa.Row[Any]) -> NamedSnapshot:
    return NamedSnapshot(
        id=SnapshotId(row.id),
        org_id=OrgId(row.org_id),
        name=row.name,
        state=BuildState(row.state),
        content_hash=row.content_hash,
        shown_manifest=row.shown_manifest,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        snapshot_id=None if row.snapshot_id is None else SnapshotId(row.snapshot_id),
        is_public=row.is_public,
        error=row.error,
    )
