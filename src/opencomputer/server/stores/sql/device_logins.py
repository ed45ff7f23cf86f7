"""Logins that wait for approval, in SQL: only hashes of their codes are kept."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from opencomputer.server.domain.device_login import DeviceLogin, LoginState
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.login_tables import device_logins
from opencomputer.wire.ids import ApiKeyId, OrgId


class SqlDeviceLoginStore:
    """Implements DeviceLoginStore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, login: DeviceLogin, *, most: int) -> bool:
        count = sa.select(sa.func.count()).select_from(device_logins)
        async with self._database.write() as connection:
            expired = device_logins.c.expires_at <= login.created_at
            await connection.execute(device_logins.delete().where(expired))
            if (await connection.execute(count)).scalar_one() >= most:
                return False
            await connection.execute(device_logins.insert().values(asdict(login)))
        return True

    async def decide(
        self, user_code_hash: str, state: LoginState, decider: tuple[OrgId, ApiKeyId], now: datetime
    ) -> DeviceLogin | None:
        org_id, key_id = decider
        waiting = (
            (device_logins.c.user_code_hash == user_code_hash)
            & (device_logins.c.state == LoginState.WAITING)
            & (device_logins.c.expires_at > now)
        )
        changes = {"state": state, "org_id": org_id, "approved_by": key_id}
        async with self._database.write() as connection:
            row = (await connection.execute(sa.select(device_logins).where(waiting))).first()
            if row is None:
                return None
            this = device_logins.c.device_hash == row.device_hash
            await connection.execute(device_logins.update().where(this).values(changes))
        return _login(row)

    async def take(self, device_hash: str, now: datetime) -> DeviceLogin | None:
        this = device_logins.c.device_hash == device_hash
        found = sa.select(device_logins).where(this, device_logins.c.expires_at > now)
        row = await self._database.first(found)
        if row is None or row.state == LoginState.WAITING:
            return None if row is None else _login(row)
        # Of those who see it decided at the same time, the one that removes it has it.
        taken = await self._database.run(device_logins.delete().where(this))
        return _login(row) if taken else None


def _login(row: sa.Row[Any]) -> DeviceLogin:
    return DeviceLogin(
        device_hash=row.device_hash,
        user_code_hash=row.user_code_hash,
        state=LoginState(row.state),
        requested_from=row.requested_from,
        created_at=row.created_at,
        expires_at=row.expires_at,
        org_id=None if row.org_id is None else OrgId(row.org_id),
        approved_by=None if row.approved_by is None else ApiKeyId(row.approved_by),
    )
