"""What destinations sign with: as it is kept, and as the change of keys sees it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from opencomputer.server.contracts.secrets import EncryptedValue, Place
from opencomputer.server.domain.secrets import Ciphertext
from opencomputer.server.domain.webhooks.signing import SealedSecrets
from opencomputer.server.stores.sql.database import Database

_Secret = tuple[Ciphertext, datetime | None]
_Change = Callable[[_Secret], _Secret | None]


class SqlSigningSecrets:
    """Implements EncryptedRows, for a table of destinations with columns `id`, `secrets` and `enabled`.

    One destination has several while a secret is replaced.
    """

    def __init__(self, database: Database, table: sa.Table, place_of: Callable[[sa.Row[Any]], Place]) -> None:
        self._database = database
        self._table = table
        self._place_of = place_of

    async def values(self) -> Sequence[EncryptedValue]:
        rows = await self._database.rows(sa.select(self._table))
        return [
            EncryptedValue(_value_id(row.id, ciphertext), self._place_of(row), ciphertext)
            for row in rows
            for ciphertext, _ in sealed_of(row.secrets)
        ]

    async def recrypt(self, value_id: str, before: Ciphertext, after: Ciphertext) -> bool:
        return await self._change(
            value_id, lambda secret: (after, secret[1]) if secret[0] == before else secret
        )

    async def remove(self, value_id: str) -> bool:
        """A destination that had no other is switched off: what it gets must not lose its signature."""
        return await self._change(value_id, lambda _: None)

    async def _change(self, value_id: str, change: _Change) -> bool:
        mine = self._table.c.id == value_id.partition(":")[0]
        async with self._database.write() as connection:
            row = (await connection.execute(sa.select(self._table).where(mine).with_for_update())).first()
            if row is None:
                return False
            before = sealed_of(row.secrets)
            changed = [
                change(secret) if _value_id(row.id, secret[0]) == value_id else secret for secret in before
            ]
            after = tuple(secret for secret in changed if secret is not None)
            if after == before:
                return False
            values = {"secrets": sealed_body(after), "enabled": row.enabled and bool(after)}
            await connection.execute(self._table.update().where(mine).values(values))
            return True


def sealed_body(sealed: SealedSecrets) -> list[dict[str, Any]]:
    """As JSON."""
    return [
        {
            "key_version": secret.key_version,
            "data": base64.b64encode(secret.data).decode(),
            "until": None if until is None else until.isoformat(),
        }
        for secret, until in sealed
    ]


def sealed_of(body: Sequence[Mapping[str, Any]]) -> SealedSecrets:
    return tuple(_secret_of(each) for each in body)


def _secret_of(body: Mapping[str, Any]) -> _Secret:
    until = None if body["until"] is None else datetime.fromisoformat(body["until"])
    return Ciphertext(body["key_version"], base64.b64decode(body["data"])), until


def _value_id(destination_id: str, ciphertext: Ciphertext) -> str:
    return f"{destination_id}:{hashlib.sha256(ciphertext.data).hexdigest()[:24]}"
