"""Keys for models in SQL, encrypted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from opencomputer.server.contracts.secrets import EncryptedValue
from opencomputer.server.domain.secrets import Ciphertext
from opencomputer.server.domain.sessions.agents import AgentChange
from opencomputer.server.domain.sessions.credentials import CredentialPlace, ModelCredential
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.sessions import agent_rows as rows
from opencomputer.server.stores.sql.sessions.agent_tables import model_credentials
from opencomputer.server.stores.sql.sessions.agents import Raced, write_change
from opencomputer.server.stores.sql.tables import organisations
from opencomputer.wire.ids import ModelCredentialId, OrgId


class SqlCredentialStore:
    """Implements CredentialStore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, credential: ModelCredential) -> None:
        async with self._database.write() as connection:
            if credential.is_default:
                await _clear_default(connection, credential)
            await connection.execute(rows.insert_credential(credential))

    async def get(self, org_id: OrgId, credential_id: str) -> ModelCredential | None:
        return await self._first(org_id, model_credentials.c.id == credential_id)

    async def list(self, org_id: OrgId) -> Sequence[ModelCredential]:
        query = (
            sa.select(model_credentials)
            .where(model_credentials.c.org_id == org_id)
            .order_by(model_credentials.c.created_at, model_credentials.c.id)
        )
        return [rows.credential_of(row) for row in await self._database.rows(query)]

    async def default(self, org_id: OrgId, provider: str) -> ModelCredential | None:
        return await self._first(org_id, model_credentials.c.default_of == provider)

    async def rotate(self, credential: ModelCredential) -> bool:
        return await self._database.run(rows.rotate_credential(credential)) > 0

    async def set_default(self, credential: ModelCredential, at: datetime) -> bool:
        its = model_credentials.c.id == credential.id
        values = {"default_of": credential.provider, "updated_at": at}
        async with self._database.write() as connection:
            await _clear_default(connection, credential)
            update = model_credentials.update().where(its).values(values)
            return (await connection.execute(update)).rowcount > 0

    async def delete(self, credential_id: ModelCredentialId, changes: Sequence[AgentChange]) -> bool | None:
        its = model_credentials.c.id == credential_id
        try:
            async with self._database.write() as connection:
                if (await connection.execute(model_credentials.delete().where(its))).rowcount == 0:
                    return None
                for change in changes:
                    await write_change(connection, change)
        except Raced:
            return False
        return True

    async def values(self) -> Sequence[EncryptedValue]:
        query = sa.select(model_credentials).order_by(model_credentials.c.id)
        found = [rows.credential_of(row) for row in await self._database.rows(query)]
        return [
            EncryptedValue(each.id, CredentialPlace(each.org_id, each.id), each.ciphertext) for each in found
        ]

    async def recrypt(self, value_id: str, before: Ciphertext, after: Ciphertext) -> bool:
        unchanged = (
            (model_credentials.c.id == value_id)
            & (model_credentials.c.key_version == before.key_version)
            & (model_credentials.c.ciphertext == before.data)
        )
        values = {"key_version": after.key_version, "ciphertext": after.data}
        return await self._database.run(model_credentials.update().where(unchanged).values(values)) > 0

    async def remove(self, value_id: str) -> bool:
        its = model_credentials.c.id == value_id
        return await self._database.run(model_credentials.delete().where(its)) > 0

    async def _first(self, org_id: OrgId, wanted: sa.ColumnElement[bool]) -> ModelCredential | None:
        query = sa.select(model_credentials).where(model_credentials.c.org_id == org_id, wanted)
        row = await self._database.first(query)
        return None if row is None else rows.credential_of(row)


async def _clear_default(connection: AsyncConnection, credential: ModelCredential) -> None:
    """One after the other, where several may write at a time: each provider has one default."""
    org_id = credential.org_id
    query = sa.select(organisations.c.id).where(organisations.c.id == org_id).with_for_update()
    await connection.execute(query)
    its = (model_credentials.c.org_id == org_id) & (model_credentials.c.default_of == credential.provider)
    await connection.execute(model_credentials.update().where(its).values(default_of=None))
