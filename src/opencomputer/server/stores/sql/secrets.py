"""Secret stores and their secrets in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from opencomputer.server.contracts.secrets import EncryptedValue, SecretStoreFields
from opencomputer.server.domain.errors import Conflict, InvalidInput, NotFound
from opencomputer.server.domain.secrets import Ciphertext, Secret, SecretPlace, SecretStore
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.secret_tables import secret_stores, secrets
from opencomputer.wire.ids import OrgId, SecretId, SecretStoreId

_NAME_TAKEN = "the organisation has another secret store of this name"


class SqlSecretStoreRows:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, store: SecretStore) -> None:
        values = {
            "id": store.id,
            "org_id": store.org_id,
            "name": store.name,
            "unique_name": store.name,
            "egress_allowlist": store.egress_allowlist,
            "created_at": store.created_at,
            "updated_at": store.updated_at,
        }
        try:
            await self._database.run(secret_stores.insert().values(values))
        except IntegrityError as error:
            raise Conflict(_NAME_TAKEN, field="name") from error

    async def get(self, org_id: OrgId, store_id: SecretStoreId) -> SecretStore | None:
        row = await self._database.first(sa.select(secret_stores).where(_there(org_id, store_id)))
        return None if row is None else store_of(row)

    async def list(self, org_id: OrgId) -> Sequence[SecretStore]:
        query = (
            sa.select(secret_stores)
            .where(secret_stores.c.org_id == org_id, secret_stores.c.deleted_at.is_(None))
            .order_by(secret_stores.c.name)
        )
        return [store_of(row) for row in await self._database.rows(query)]

    async def update(
        self, org_id: OrgId, store_id: SecretStoreId, fields: SecretStoreFields, at: datetime
    ) -> SecretStore | None:
        values: dict[str, Any] = {**fields, "updated_at": at}
        if "name" in fields:
            values["unique_name"] = fields["name"]
        statement = (
            secret_stores.update().where(_there(org_id, store_id)).values(values).returning(*secret_stores.c)
        )
        try:
            async with self._database.write() as connection:
                row = (await connection.execute(statement)).first()
        except IntegrityError as error:
            raise Conflict(_NAME_TAKEN, field="name") from error
        return None if row is None else store_of(row)

    async def delete(self, org_id: OrgId, store_id: SecretStoreId, at: datetime) -> bool:
        store = secret_stores.update().where(_there(org_id, store_id)).values(deleted_at=at, unique_name=None)
        its_secrets = (
            secrets.update()
            .where(secrets.c.store_id == store_id, secrets.c.deleted_at.is_(None))
            .values(deleted_at=at)
        )
        async with self._database.write() as connection:
            if (await connection.execute(store)).rowcount == 0:
                return False
            await connection.execute(its_secrets)
            return True


class SqlSecretRows:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def set(self, secret: Secret, *, most: int) -> Secret:
        try:
            async with self._database.write() as connection:
                await _lock_store(connection, secret.store_id)
                row = await _write(connection, secret)
                await _check_room(connection, secret.store_id, most)
        except IntegrityError as error:
            raise Conflict("the secret was set by somebody else just now; try again") from error
        return secret_of(row)

    async def find(self, store_id: SecretStoreId, name: str) -> Secret | None:
        mine = (secrets.c.store_id == store_id) & (secrets.c.name == name)
        row = await self._database.first(sa.select(secrets).where(mine))
        return None if row is None else secret_of(row)

    async def list(self, store_id: SecretStoreId) -> Sequence[Secret]:
        query = (
            sa.select(secrets)
            .where(secrets.c.store_id == store_id, secrets.c.deleted_at.is_(None))
            .order_by(secrets.c.name)
        )
        return [secret_of(row) for row in await self._database.rows(query)]

    async def delete(self, store_id: SecretStoreId, name: str, at: datetime) -> bool:
        there = (secrets.c.store_id == store_id) & (secrets.c.name == name) & secrets.c.deleted_at.is_(None)
        return await self._database.run(secrets.update().where(there).values(deleted_at=at)) > 0

    async def values(self) -> Sequence[EncryptedValue]:
        query = sa.select(secrets, secret_stores.c.org_id).join(secret_stores).order_by(secrets.c.id)
        return [_encrypted(row) for row in await self._database.rows(query)]

    async def recrypt(self, value_id: str, before: Ciphertext, after: Ciphertext) -> bool:
        unchanged = (
            (secrets.c.id == value_id)
            & (secrets.c.key_version == before.key_version)
            & (secrets.c.ciphertext == before.data)
        )
        values = {"key_version": after.key_version, "ciphertext": after.data}
        return await self._database.run(secrets.update().where(unchanged).values(values)) > 0

    async def remove(self, value_id: str) -> bool:
        return await self._database.run(secrets.delete().where(secrets.c.id == value_id)) > 0


def _encrypted(row: sa.Row[Any]) -> EncryptedValue:
    place = SecretPlace(OrgId(row.org_id), SecretStoreId(row.store_id), SecretId(row.id))
    return EncryptedValue(row.id, place, Ciphertext(row.key_version, row.ciphertext))


def _there(org_id: OrgId, store_id: SecretStoreId) -> sa.ColumnElement[bool]:
    return (
        (secret_stores.c.id == store_id)
        & (secret_stores.c.org_id == org_id)
        & secret_stores.c.deleted_at.is_(None)
    )


async def _lock_store(connection: AsyncConnection, store_id: SecretStoreId) -> None:
    """Nobody deletes it, or adds to it, meanwhile, where several may write at a time."""
    there = (secret_stores.c.id == store_id) & secret_stores.c.deleted_at.is_(None)
    query = sa.select(secret_stores.c.id).where(there).with_for_update()
    if (await connection.execute(query)).first() is None:
        raise NotFound("there is no such secret store")


async def _write(connection: AsyncConnection, secret: Secret) -> sa.Row[Any]:
    changing = {
        "key_version": secret.ciphertext.key_version,
        "ciphertext": secret.ciphertext.data,
        "hosts": secret.hosts,
        "updated_at": secret.updated_at,
    }
    present = (secrets.c.id == secret.id) & (secrets.c.store_id == secret.store_id)
    # One that was deleted, and comes back, begins anew as far as users can see.
    created_at = sa.case((secrets.c.deleted_at.is_(None), secrets.c.created_at), else_=secret.created_at)
    update = (
        secrets.update()
        .where(present)
        .values(**changing, created_at=created_at, deleted_at=None)
        .returning(*secrets.c)
    )
    row = (await connection.execute(update)).first()
    if row is not None:
        return row
    fixed = {
        "id": secret.id,
        "store_id": secret.store_id,
        "name": secret.name,
        "created_at": secret.created_at,
    }
    insert = secrets.insert().values(**fixed, **changing).returning(*secrets.c)
    return (await connection.execute(insert)).one()


async def _check_room(connection: AsyncConnection, store_id: SecretStoreId, most: int) -> None:
    query = (
        sa.select(sa.func.count())
        .select_from(secrets)
        .where(secrets.c.store_id == store_id, secrets.c.deleted_at.is_(None))
    )
    if (await connection.execute(query)).scalar_one() > most:
        raise InvalidInput(f"a secret store can have {most} secrets; delete one first", field="name")


def store_of(row: sa.Row[Any]) -> SecretStore:
    return SecretStore(
        id=SecretStoreId(row.id),
        org_id=OrgId(row.org_id),
        name=row.name,
        egress_allowlist=row.egress_allowlist,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def secret_of(row: sa.Row[Any]) -> Secret:
    return Secret(
        id=SecretId(row.id),
        store_id=SecretStoreId(row.store_id),
        name=row.name,
        ciphertext=Ciphertext(row.key_version, row.ciphertext),
        hosts=row.hosts,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
