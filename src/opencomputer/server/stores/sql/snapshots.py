"""Snapshots in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from opencomputer.server.contracts.stores import Wanted
from opencomputer.server.domain.errors import Conflict
from opencomputer.server.domain.layers import LayerId, MemoryId
from opencomputer.server.domain.lifecycle_events import LifecycleEvent, checkpoint_created
from opencomputer.server.domain.sandbox import TERMINAL, SandboxState
from opencomputer.server.domain.snapshot import (
    Origin,
    SavedMemory,
    Snapshot,
    SnapshotKind,
    SnapshotPurpose,
    SnapshotState,
)
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.origins import origin_values, shape_of
from opencomputer.server.stores.sql.tables import machines, patches, sandboxes, snapshots
from opencomputer.server.stores.sql.telling import Ring, tell, unheard
from opencomputer.wire.ids import OrgId, SandboxId, SnapshotId

_live = sandboxes.c.state.in_([state for state in SandboxState if state not in TERMINAL])

_references = (
    sa.exists().where(patches.c.checkpoint_id == snapshots.c.id),
    sa.exists().where(sandboxes.c.from_checkpoint == snapshots.c.id, _live),
    sa.exists().where(sandboxes.c.patch_source == snapshots.c.id, _live),
)
"""Each is a reason why a snapshot is needed: a table that refers to checkpoints adds its own."""


class SqlSnapshotStore:
    """Implements SnapshotStore. `ring` is called when a checkpoint is to be told of."""

    def __init__(self, database: Database, ring: Ring = unheard) -> None:
        self._database = database
        self._ring = ring

    async def add(self, snapshot: Snapshot, *, instead_of: Sequence[SnapshotId] = ()) -> None:
        try:
            async with self._database.write() as connection:
                await _delete(connection, instead_of)
                await connection.execute(snapshots.insert().values(_values(snapshot)))
        except IntegrityError as error:
            raise Conflict("another checkpoint of this sandbox has this name", field="name") from error

    async def get(self, snapshot_id: SnapshotId) -> Snapshot | None:
        row = await self._database.first(sa.select(snapshots).where(snapshots.c.id == snapshot_id))
        return None if row is None else _snapshot(row)

    async def checkpoints(self, org_id: OrgId, sandbox_id: SandboxId) -> Sequence[Snapshot]:
        query = (
            sa.select(snapshots)
            .where(snapshots.c.org_id == org_id, _checkpoint_of(sandbox_id))
            .order_by(snapshots.c.created_at.desc(), snapshots.c.id.desc())
        )
        return [_snapshot(row) for row in await self._database.rows(query)]

    async def protected(self, sandbox_id: SandboxId) -> frozenset[SnapshotId]:
        query = sa.select(snapshots.c.id).where(_checkpoint_of(sandbox_id), sa.or_(*_references))
        return frozenset(SnapshotId(row.id) for row in await self._database.rows(query))

    async def ready(
        self,
        snapshot_id: SnapshotId,
        layers: tuple[LayerId, ...],
        memory: SavedMemory | None,
        *,
        size_bytes: int,
        at: datetime,
    ) -> bool:
        values = {"state": SnapshotState.READY, "layers": layers, "size_bytes": size_bytes, "ready_at": at}
        table = snapshots.c
        statement = (
            snapshots.update()
            .where(_processing(snapshot_id))
            .values(values | _memory_values(memory))
            .returning(table.org_id, table.sandbox_id, table.purpose)
        )
        async with self._database.write() as connection:
            row = (await connection.execute(statement)).first()
            if row is None:
                return False
            events = _told_of(row, snapshot_id, at)
            told = await tell(connection, events)
        if told:
            self._ring()
        return True

    async def fail(self, snapshot_id: SnapshotId, error: str, at: datetime) -> bool:
        values = {"state": SnapshotState.FAILED, "error": error, "failed_at": at, "unique_name": None}
        statement = snapshots.update().where(_processing(snapshot_id)).values(values)
        return await self._database.run(statement) > 0

    async def publish(self, snapshot_id: SnapshotId, public: bool) -> None:
        await self._database.run(
            snapshots.update().where(snapshots.c.id == snapshot_id).values(is_public=public)
        )

    async def remove(self, snapshot_id: SnapshotId) -> bool:
        async with self._database.write() as connection:
            return await _delete(connection, [snapshot_id]) > 0

    async def in_state(
        self, state: SnapshotState, purpose: SnapshotPurpose | None = None
    ) -> Sequence[Snapshot]:
        query = sa.select(snapshots).where(snapshots.c.state == state)
        if purpose is not None:
            query = query.where(snapshots.c.purpose == purpose)
        return [_snapshot(row) for row in await self._database.rows(query)]

    async def wanted(self) -> Wanted:
        # One statement: two might each see a different moment, and a layer that moved from a sandbox to a
        # snapshot in between would be missed.
        no_memory = sa.cast(sa.null(), sa.String).label("memory_id")
        query = sa.union_all(
            sa.select(snapshots.c.layers, snapshots.c.memory_id, snapshots.c.template_hash).where(
                snapshots.c.state != SnapshotState.FAILED
            ),
            sa.select(sandboxes.c.layers, no_memory, sandboxes.c.template_hash).where(_live),
            sa.select(sandboxes.c.origin_layers, no_memory, sandboxes.c.template_hash).where(_live),
            sa.select(machines.c.layers, no_memory, machines.c.template_hash),
        )
        rows = await self._database.rows(query)
        return Wanted(
            layers=frozenset(layer for row in rows for layer in row.layers),
            memories=frozenset(MemoryId(row.memory_id) for row in rows if row.memory_id is not None),
            template_hashes=frozenset(row.template_hash for row in rows),
        )


def _checkpoint_of(sandbox_id: SandboxId) -> sa.ColumnElement[bool]:
    return (snapshots.c.sandbox_id == sandbox_id) & (snapshots.c.purpose == SnapshotPurpose.CHECKPOINT)


async def _delete(connection: AsyncConnection, snapshot_ids: Sequence[SnapshotId]) -> int:
    # Whoever adds a patch locks its checkpoint: from here on nobody can, where several may write at a time.
    chosen = sa.select(snapshots.c.id).where(snapshots.c.id.in_(snapshot_ids)).order_by(snapshots.c.id)
    await connection.execute(chosen.with_for_update())
    await connection.execute(patches.delete().where(patches.c.checkpoint_id.in_(snapshot_ids)))
    return (await connection.execute(snapshots.delete().where(snapshots.c.id.in_(snapshot_ids)))).rowcount


def _values(snapshot: Snapshot) -> dict[str, Any]:
    has_unique_name = (
        snapshot.purpose is SnapshotPurpose.CHECKPOINT and snapshot.state is not SnapshotState.FAILED
    )
    return {
        "id": snapshot.id,
        "org_id": snapshot.org_id,
        "sandbox_id": snapshot.sandbox_id,
        "purpose": snapshot.purpose,
        "kind": snapshot.kind,
        "state": snapshot.state,
        "name": snapshot.name,
        "unique_name": snapshot.name if has_unique_name else None,
        "created_at": snapshot.created_at,
        "ready_at": snapshot.ready_at,
        "failed_at": snapshot.failed_at,
        "error": snapshot.error,
        "is_public": snapshot.is_public,
        "size_bytes": snapshot.size_bytes,
        **origin_values(snapshot.origin),
        **_memory_values(snapshot.memory),
    }


def _memory_values(memory: SavedMemory | None) -> dict[str, str | None]:
    return {
        "memory_id": None if memory is None else memory.id,
        "memory_image_version": None if memory is None else memory.image_version,
        "memory_guest_token": None if memory is None else memory.guest_token,
    }


def _snapshot(row: sa.Row[Any]) -> Snapshot:
    return Snapshot(
        id=SnapshotId(row.id),
        org_id=OrgId(row.org_id),
        purpose=SnapshotPurpose(row.purpose),
        kind=SnapshotKind(row.kind),
        state=SnapshotState(row.state),
        origin=_origin(row),
        created_at=row.created_at,
        sandbox_id=None if row.sandbox_id is None else SandboxId(row.sandbox_id),
        name=row.name,
        memory=None
        if row.memory_id is None
        else SavedMemory(MemoryId(row.memory_id), row.memory_image_version, row.memory_guest_token),
        size_bytes=row.size_bytes,
        is_public=row.is_public,
        error=row.error,
        ready_at=row.ready_at,
        failed_at=row.failed_at,
    )


def _origin(row: sa.Row[Any]) -> Origin:
    return Origin(
        template=row.template,
        template_hash=row.template_hash,
        shape=shape_of(row),
        layers=row.layers,
        environment=row.environment,
        metadata=row.metadata,
        workdir=row.workdir,
        network_enabled=row.network_enabled,
        generation=row.generation,
        patch_source=row.patch_source,
        patch_position=row.patch_position,
        secret_stores=row.secret_stores,
        egress_allowlist=row.egress_allowlist,
    )


def _processing(snapshot_id: SnapshotId) -> sa.ColumnElement[bool]:
    return (snapshots.c.id == snapshot_id) & (snapshots.c.state == SnapshotState.PROCESSING)


def _told_of(row: sa.Row[Any, Any, Any], snapshot_id: SnapshotId, at: datetime) -> Sequence[LifecycleEvent]:
    if row.purpose != SnapshotPurpose.CHECKPOINT or row.sandbox_id is None:
        return ()
    return [checkpoint_created(OrgId(row.org_id), SandboxId(row.sandbox_id), snapshot_id, at)]
