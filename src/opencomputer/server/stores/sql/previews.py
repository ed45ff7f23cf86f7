"""Records of previews, and grants to them, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from opencomputer.server.domain.errors import Conflict, Gone
from opencomputer.server.domain.lifecycle_events import LifecycleEvent
from opencomputer.server.domain.previews import Grant, Preview
from opencomputer.server.domain.sandbox import TERMINAL
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.preview_tables import grants, previews
from opencomputer.server.stores.sql.tables import sandboxes
from opencomputer.server.stores.sql.telling import Ring, tell, unheard
from opencomputer.wire.ids import GrantId, OrgId, PreviewId, SandboxId


class SqlPreviewStore:
    """Implements PreviewStore. `ring` is called when something is to be told."""

    def __init__(self, database: Database, ring: Ring = unheard) -> None:
        self._database = database
        self._ring = ring

    async def add(self, preview: Preview, told: LifecycleEvent | None = None) -> Preview:
        async with self._database.write() as connection:
            await _hold(connection, preview.sandbox_id)
            row = (await connection.execute(_of_port(preview.sandbox_id, preview.port))).first()
            if row is not None:
                return _preview(row)
            await connection.execute(previews.insert().values(asdict(preview)))
            heard = told is not None and await tell(connection, [told])
        if heard:
            self._ring()
        return preview

    async def get(self, sandbox_id: SandboxId, port: int) -> Preview | None:
        row = await self._database.first(_of_port(sandbox_id, port))
        return None if row is None else _preview(row)

    async def list(self, org_id: OrgId, sandbox_id: SandboxId) -> Sequence[Preview]:
        mine = (previews.c.org_id == org_id) & (previews.c.sandbox_id == sandbox_id)
        rows = await self._database.rows(sa.select(previews).where(mine).order_by(previews.c.port))
        return [_preview(row) for row in rows]

    async def remove(self, preview: Preview, told: LifecycleEvent | None = None) -> bool:
        statement = previews.delete().where(previews.c.id == preview.id)
        async with self._database.write() as connection:
            if not (await connection.execute(statement)).rowcount:
                return False
            heard = told is not None and await tell(connection, [told])
        if heard:
            self._ring()
        return True


class SqlGrantStore:
    """Implements GrantStore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, grant: Grant, *, most: int) -> None:
        of_sandbox = grants.c.sandbox_id == grant.sandbox_id
        count = sa.select(sa.func.count()).where(of_sandbox, grants.c.port == grant.port)
        async with self._database.write() as connection:
            await _hold(connection, grant.sandbox_id)
            expired = of_sandbox & (grants.c.expires_at <= grant.created_at)
            await connection.execute(grants.delete().where(expired))
            if (await connection.execute(count)).scalar_one() >= most:
                raise Conflict(f"this port has {most} grants already; revoke some, or wait until they expire")
            await connection.execute(grants.insert().values(asdict(grant)))

    async def by_hash(self, token_hash: str) -> Grant | None:
        row = await self._database.first(sa.select(grants).where(grants.c.token_hash == token_hash))
        return None if row is None else _grant(row)

    async def list(self, org_id: OrgId, sandbox_id: SandboxId, port: int, now: datetime) -> Sequence[Grant]:
        valid = sa.select(grants).where(_granted(org_id, sandbox_id, port), grants.c.expires_at > now)
        rows = await self._database.rows(valid.order_by(grants.c.created_at, grants.c.id))
        return [_grant(row) for row in rows]

    async def remove(self, org_id: OrgId, sandbox_id: SandboxId, port: int, grant_id: GrantId) -> bool:
        mine = _granted(org_id, sandbox_id, port) & (grants.c.id == grant_id)
        return await self._database.run(grants.delete().where(mine)) > 0


async def _hold(connection: AsyncConnection, sandbox_id: SandboxId) -> None:
    """Whoever stops the sandbox, and removes what it has, comes before or after this."""
    row = sa.select(sandboxes.c.state).where(sandboxes.c.id == sandbox_id).with_for_update()
    state = (await connection.execute(row)).scalar_one_or_none()
    if state is None or state in TERMINAL:
        raise Gone


def _of_port(sandbox_id: SandboxId, port: int) -> sa.Select[Any]:
    return sa.select(previews).where(previews.c.sandbox_id == sandbox_id, previews.c.port == port)


def _granted(org_id: OrgId, sandbox_id: SandboxId, port: int) -> sa.ColumnElement[bool]:
    return (grants.c.org_id == org_id) & (grants.c.sandbox_id == sandbox_id) & (grants.c.port == port)


def _preview(row: sa.Row[Any]) -> Preview:
    return Preview(
        id=PreviewId(row.id),
        sandbox_id=SandboxId(row.sandbox_id),
        org_id=OrgId(row.org_id),
        port=row.port,
        domain=row.domain,
        created_at=row.created_at,
    )


def _grant(row: sa.Row[Any]) -> Grant:
    return Grant(
        id=GrantId(row.id),
        sandbox_id=SandboxId(row.sandbox_id),
        org_id=OrgId(row.org_id),
        port=row.port,
        token_hash=row.token_hash,
        created_at=row.created_at,
        expires_at=row.expires_at,
    )
