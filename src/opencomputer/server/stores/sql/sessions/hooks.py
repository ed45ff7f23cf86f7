"""Hooks of agents in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from opencomputer.server.domain.sessions.errors import LimitReached, NameTaken
from opencomputer.server.domain.sessions.hooks import Hook, RevokedReason
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.sessions.agent_tables import agents
from opencomputer.server.stores.sql.sessions.schedules import lock_agent
from opencomputer.server.stores.sql.sessions.starter_tables import hooks
from opencomputer.wire.ids import AgentId, HookId, OrgId

_GOOD = hooks.c.revoked_at.is_(None)


class SqlHookStore:
    """Implements HookStore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, hook: Hook, *, most: int) -> None:
        try:
            async with self._database.write() as connection:
                await lock_agent(connection, hook.agent_id)
                mine = (hooks.c.agent_id == hook.agent_id) & _GOOD
                count = sa.select(sa.func.count()).select_from(hooks).where(mine)
                if (await connection.execute(count)).scalar_one() >= most:
                    raise LimitReached(f"an agent has at most {most} hooks that are not revoked", limit=most)
                values = {each.name: getattr(hook, each.name) for each in fields(Hook)}
                await connection.execute(hooks.insert().values(**values, unique_name=hook.name))
        except IntegrityError as error:
            raise NameTaken("the agent has another hook of this name", field="name") from error

    async def list(
        self, agent_id: AgentId, *, revoked: bool, limit: int, before: Hook | None = None
    ) -> Sequence[Hook]:
        query = sa.select(hooks).where(hooks.c.agent_id == agent_id)
        if not revoked:
            query = query.where(_GOOD)
        if before is not None:
            moment = sa.literal(before.created_at, hooks.c.created_at.type)
            place = sa.tuple_(hooks.c.created_at, hooks.c.id)
            query = query.where(place < sa.tuple_(moment, sa.literal(before.id)))
        newest_first = query.order_by(hooks.c.created_at.desc(), hooks.c.id.desc()).limit(limit)
        return [_hook_of(row) for row in await self._database.rows(newest_first)]

    async def get(self, agent_id: AgentId, hook_id: HookId) -> Hook | None:
        mine = (hooks.c.agent_id == agent_id) & (hooks.c.id == hook_id)
        row = await self._database.first(sa.select(hooks).where(mine))
        return None if row is None else _hook_of(row)

    async def of_token(self, token_hash: str) -> Hook | None:
        query = sa.select(hooks).join(agents, agents.c.id == hooks.c.agent_id)
        mine = query.where(hooks.c.token_hash == token_hash, agents.c.deleted_at.is_(None))
        row = await self._database.first(mine)
        return None if row is None else _hook_of(row)

    async def revoke(self, hook_id: HookId, reason: RevokedReason, at: datetime) -> bool:
        revoked = {"revoked_at": at, "revoked_reason": reason, "unique_name": None}
        return (
            await self._database.run(hooks.update().where(hooks.c.id == hook_id, _GOOD).values(revoked)) > 0
        )


def _hook_of(row: sa.Row[Any]) -> Hook:
    values = {each.name: getattr(row, each.name) for each in fields(Hook)}
    values |= {
        "id": HookId(row.id),
        "org_id": OrgId(row.org_id),
        "agent_id": AgentId(row.agent_id),
        "revoked_reason": None if row.revoked_reason is None else RevokedReason(row.revoked_reason),
    }
    return Hook(**values)
