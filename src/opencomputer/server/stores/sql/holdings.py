"""What sandboxes hold of secret stores, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from opencomputer.server.domain.sandbox import TERMINAL, SandboxState
from opencomputer.server.domain.secrets import Holding, Layer, Seal, Sealing
from opencomputer.server.domain.snapshot import SnapshotState
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.secret_tables import held_stores, seals, secret_stores, secrets
from opencomputer.server.stores.sql.secrets import secret_of, store_of
from opencomputer.server.stores.sql.tables import sandboxes, snapshots
from opencomputer.wire.ids import OrgId, SandboxId, SecretId, SecretStoreId

_live_ids = sa.select(sandboxes.c.id).where(
    sandboxes.c.state.in_([state for state in SandboxState if state not in TERMINAL])
)
_saved_ids = sa.select(snapshots.c.sandbox_id).where(
    snapshots.c.sandbox_id.is_not(None), snapshots.c.state != SnapshotState.FAILED
)


class SqlHoldingRows:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def layers(self, org_id: OrgId, names: Sequence[str]) -> Sequence[Layer]:
        stores_query = sa.select(secret_stores).where(
            secret_stores.c.org_id == org_id, secret_stores.c.unique_name.in_(names)
        )
        # In one transaction: secrets of another moment than their stores' would be a mixture.
        async with self._database.read() as connection:
            stores = [store_of(row) for row in await connection.execute(stores_query)]
            query = (
                sa.select(secrets)
                .where(secrets.c.store_id.in_([store.id for store in stores]), secrets.c.deleted_at.is_(None))
                .order_by(secrets.c.name)
            )
            found = [secret_of(row) for row in await connection.execute(query)]
        stores.sort(key=lambda store: names.index(store.name))
        return [Layer(store, [each for each in found if each.store_id == store.id]) for store in stores]

    async def seals(self, sandbox_id: SandboxId) -> Sequence[Seal]:
        query = sa.select(seals).where(seals.c.sandbox_id == sandbox_id).order_by(seals.c.name, seals.c.token)
        return [_seal(row) for row in await self._database.rows(query)]

    async def holding(self, sandbox_id: SandboxId) -> Holding:
        stores_query = (
            sa.select(secret_stores)
            .join(held_stores, held_stores.c.store_id == secret_stores.c.id)
            .where(held_stores.c.sandbox_id == sandbox_id)
            .order_by(held_stores.c.position)
        )
        mine = seals.c.sandbox_id == sandbox_id
        seals_query = sa.select(seals).where(mine).order_by(seals.c.name, seals.c.token)
        secrets_query = sa.select(secrets).where(secrets.c.id.in_(sa.select(seals.c.secret_id).where(mine)))
        async with self._database.read() as connection:
            stores = [store_of(row) for row in await connection.execute(stores_query)]
            held = [_seal(row) for row in await connection.execute(seals_query)]
            found = [secret_of(row) for row in await connection.execute(secrets_query)]
        return Holding(stores, held, {secret.id: secret for secret in found})

    async def holders(self, store_id: SecretStoreId, name: str | None = None) -> Sequence[SandboxId]:
        query = sa.select(held_stores.c.sandbox_id).where(held_stores.c.store_id == store_id)
        if name is not None:
            the_secret = sa.select(secrets.c.id).where(secrets.c.store_id == store_id, secrets.c.name == name)
            query = sa.select(seals.c.sandbox_id).where(seals.c.secret_id.in_(the_secret))
        column = query.selected_columns[0]
        query = query.where(column.in_(_live_ids)).distinct().order_by(column)
        return [SandboxId(row.sandbox_id) for row in await self._database.rows(query)]

    async def sweep(self, before: datetime) -> int:
        async with self._database.write() as connection:
            for table in (seals, held_stores):
                over = table.c.sandbox_id.not_in(_live_ids) & table.c.sandbox_id.not_in(_saved_ids)
                await connection.execute(table.delete().where(over))
            wanted = sa.select(seals.c.secret_id).where(
                seals.c.secret_id.is_not(None), seals.c.sandbox_id.in_(_live_ids)
            )
            removed = await connection.execute(
                secrets.delete().where(secrets.c.deleted_at < before, secrets.c.id.not_in(wanted))
            )
            held = sa.select(held_stores.c.store_id).where(held_stores.c.sandbox_id.in_(_live_ids))
            await connection.execute(
                secret_stores.delete().where(
                    secret_stores.c.deleted_at < before,
                    secret_stores.c.id.not_in(held),
                    secret_stores.c.id.not_in(sa.select(secrets.c.store_id)),
                )
            )
        return removed.rowcount


async def hold(connection: AsyncConnection, sandbox_id: SandboxId, sealing: Sealing) -> None:
    """Write down what a new sandbox holds, in the transaction that makes it."""
    stores = [
        {"sandbox_id": sandbox_id, "position": position, "store_id": store_id}
        for position, store_id in enumerate(sealing.store_ids)
    ]
    tokens = [
        {
            "sandbox_id": sandbox_id,
            "token": seal.token,
            "name": seal.name,
            "secret_id": seal.secret_id,
            "inherited": seal.inherited,
        }
        for seal in sealing.seals
    ]
    if stores:
        await connection.execute(held_stores.insert(), stores)
    if tokens:
        await connection.execute(seals.insert(), tokens)


def _seal(row: sa.Row[tuple[object, ...]]) -> Seal:
    secret_id = None if row.secret_id is None else SecretId(row.secret_id)
    return Seal(row.token, row.name, secret_id, row.inherited)
