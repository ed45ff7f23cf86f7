"""Patches of checkpoints in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.snapshot import Patch
from opencomputer.wire.ids import PatchId, SnapshotId
from tests.support.memory.stores import Tables


class MemoryPatches:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._rows = tables.patches

    async def add(self, patch: Patch) -> Patch:
        await self._tables.moment("patches.add")
        if patch.checkpoint_id not in self._tables.snapshots:
            raise NotFound("there is no such checkpoint")
        sequence = self._tables.patches_ever.get(patch.checkpoint_id, 0) + 1
        self._tables.patches_ever[patch.checkpoint_id] = sequence
        self._rows[patch.id] = added = replace(patch, sequence=sequence)
        return added

    async def list(self, checkpoint_id: SnapshotId, *, after: int = 0) -> Sequence[Patch]:
        await self._tables.moment("patches.list")
        mine = [row for row in self._rows.values() if row.checkpoint_id == checkpoint_id]
        return sorted((row for row in mine if row.sequence > after), key=lambda row: row.sequence)

    async def remove(self, checkpoint_id: SnapshotId, patch_id: PatchId) -> bool:
        await self._tables.moment("patches.remove")
        row = self._rows.get(patch_id)
        if row is None or row.checkpoint_id != checkpoint_id:
            return False
        del self._rows[patch_id]
        return True
