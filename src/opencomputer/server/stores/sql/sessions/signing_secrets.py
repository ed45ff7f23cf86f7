"""What destinations sign with, as the change of keys sees it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

import sqlalchemy as sa

from opencomputer.server.contracts.secrets import EncryptedValue
from opencomputer.server.domain.secrets import Ciphertext
from opencomputer.server.domain.sessions.destinations import Destination
from opencomputer.server.domain.sessions.webhooks import SigningSecretPlace
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.sessions.rows import destination_of, destination_values
from opencomputer.server.stores.sql.sessions.schema import destinations

_Secret = tuple[Ciphertext, datetime | None]
_Change = Callable[[_Secret], _Secret | None]


class SqlSigningSecrets:
    """Implements EncryptedRows. One destination has several while a secret is replaced."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def values(self) -> Sequence[EncryptedValue]:
        rows = await self._database.rows(sa.select(destinations))
        return [
            EncryptedValue(
                _value_id(destination, ciphertext),
                SigningSecretPlace(destination.session_id, destination.id),
                ciphertext,
            )
            for destination in map(destination_of, rows)
            for ciphertext, _ in destination.secrets
        ]

    async def recrypt(self, value_id: str, before: Ciphertext, after: Ciphertext) -> bool:
        return await self._change(
            value_id, lambda secret: (after, secret[1]) if secret[0] == before else secret
        )

    async def remove(self, value_id: str) -> bool:
        """A destination that had no other is switched off: what it gets must not lose its signature."""
        return await self._change(value_id, lambda _: None)

    async def _change(self, value_id: str, change: _Change) -> bool:
        mine = destinations.c.id == value_id.partition(":")[0]
        async with self._database.write() as connection:
            row = (await connection.execute(sa.select(destinations).where(mine).with_for_update())).first()
            if row is None:
                return False
            destination = destination_of(row)
            changed = [
                change(secret) if _value_id(destination, secret[0]) == value_id else secret
                for secret in destination.secrets
            ]
            secrets = tuple(secret for secret in changed if secret is not None)
            if secrets == destination.secrets:
                return False
            kept = replace(destination, secrets=secrets, enabled=destination.enabled and bool(secrets))
            values = {name: destination_values(kept)[name] for name in ("secrets", "enabled")}
            await connection.execute(destinations.update().where(mine).values(values))
            return True


def _value_id(destination: Destination, ciphertext: Ciphertext) -> str:
    return f"{destination.id}:{hashlib.sha256(ciphertext.data).hexdigest()[:24]}"
