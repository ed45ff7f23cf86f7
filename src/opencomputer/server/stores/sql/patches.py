"""Patches of checkpoints in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import sqlalchemy as sa

from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.snapshot import Patch
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.tables import patches, snapshots
from opencomputer.wire.ids import PatchId, SnapshotId


class SqlPatchStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, patch: Patch) -> Patch:
        # The checkpoint's row is locked from here to the end: whoever adds at the same time waits.
        count = (
            snapshots.update()
            .where(snapshots.c.id == patch.checkpoint_id)
            .values(patches_ever=snapshots.c.patches_ever + 1)
            .returning(snapshots.c.patches_ever)
        )
        async with self._database.write() as connection:
            sequence = (await connection.execute(count)).scalar_one_or_none()
            if sequence is None:
                raise NotFound("there is no such checkpoint")
            added = replace(patch, sequence=sequence)
            await connection.execute(patches.insert().values(asdict(added)))
        return added

    async def list(self, checkpoint_id: SnapshotId, *, after: int = 0) -> Sequence[Patch]:
        mine = (patches.c.checkpoint_id == checkpoint_id) & (patches.c.sequence > after)
        query = sa.select(patches).where(mine).order_by(patches.c.sequence)
        return [_patch(row) for row in await self._database.rows(query)]

    async def remove(self, checkpoint_id: SnapshotId, patch_id: PatchId) -> bool:
        mine = (patches.c.checkpoint_id == checkpoint_id) & (patches.c.id == patch_id)
        return await self._database.run(patches.delete().where(mine)) > 0


def _patch(row: sa.Row[Any]) -> Patch:
    return Patch(
        id=PatchId(row.id),
        checkpoint_id=SnapshotId(row.checkpoint_id),
        sequence=row.sequence,
        script=row.script,
        description=row.description,
        created_at=row.created_at,
    )
