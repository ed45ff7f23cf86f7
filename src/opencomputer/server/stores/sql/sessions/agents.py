"""Agents in SQL: every change is one transaction, made from a version that is still the newest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from opencomputer.server.domain.sessions.agents import Agent, AgentChange
from opencomputer.server.domain.sessions.errors import NameConflict
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.sessions import agent_rows as rows
from opencomputer.server.stores.sql.sessions.agent_tables import (
    agent_activations,
    agent_deployments,
    agent_revisions,
    agent_versions,
    agents,
    skill_bundles,
)
from opencomputer.server.stores.sql.sessions.schedules import sync_schedules
from opencomputer.server.stores.sql.sessions.starter_tables import schedules
from opencomputer.wire.ids import AgentId, OrgId


class Raced(Exception):
    """What a change was made from is not there any more: to be left by the transaction, never by a store."""


class SqlAgentStore:
    """Implements AgentStore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, change: AgentChange) -> None:
        try:
            async with self._database.write() as connection:
                await connection.execute(agents.insert().values(rows.agent_values(change.agent)))
                await _write_parts(connection, change)
        except IntegrityError as error:
            raise NameConflict(field="name") from error

    async def apply(self, change: AgentChange) -> bool:
        try:
            async with self._database.write() as connection:
                await write_change(connection, change)
        except (IntegrityError, Raced):
            return False
        return True

    async def get(self, org_id: OrgId, agent_id: AgentId) -> Agent | None:
        return await self._first(_there(org_id) & (agents.c.id == agent_id))

    async def find(self, org_id: OrgId, name: str) -> Agent | None:
        return await self._first(_there(org_id) & (agents.c.unique_name == name))

    async def list(self, org_id: OrgId, *, limit: int, before: Agent | None = None) -> Sequence[Agent]:
        query = rows.agents_with_revisions().where(_there(org_id))
        order = sa.tuple_(agents.c.created_at, agents.c.id)
        if before is not None:
            moment = sa.bindparam("moment", before.created_at, type_=agents.c.created_at.type)
            query = query.where(order < sa.tuple_(moment, sa.literal(before.id)))
        query = query.order_by(agents.c.created_at.desc(), agents.c.id.desc()).limit(limit)
        return [rows.agent_of(row) for row in await self._database.rows(query)]

    async def using(self, org_id: OrgId, credential: str) -> Sequence[Agent]:
        query = rows.agents_with_revisions().where(_there(org_id), agents.c.credential == credential)
        return [rows.agent_of(row) for row in await self._database.rows(query)]

    async def delete(self, org_id: OrgId, agent_id: AgentId, at: datetime) -> bool:
        there = _there(org_id) & (agents.c.id == agent_id)
        statement = agents.update().where(there).values(deleted_at=at, unique_name=None)
        of_it = schedules.update().where(schedules.c.agent_id == agent_id, schedules.c.deleted_at.is_(None))
        async with self._database.write() as connection:
            if (await connection.execute(statement)).rowcount == 0:
                return False
            await connection.execute(of_it.values(deleted_at=at, unique_name=None))
            return True

    async def _first(self, wanted: sa.ColumnElement[bool]) -> Agent | None:
        row = await self._database.first(rows.agents_with_revisions().where(wanted))
        return None if row is None else rows.agent_of(row)


def _there(org_id: OrgId) -> sa.ColumnElement[bool]:
    return (agents.c.org_id == org_id) & agents.c.deleted_at.is_(None)


async def write_change(connection: AsyncConnection, change: AgentChange) -> None:
    """Raises Raced, and IntegrityError where somebody else has used the deployment's key meanwhile."""
    agent = change.agent
    # First of all: from here on nobody else changes this agent.
    unchanged = _there(agent.org_id) & (agents.c.id == agent.id) & (agents.c.version == change.version)
    update = agents.update().where(unchanged).values(rows.bindings(agent))
    if (await connection.execute(update)).rowcount == 0:
        raise Raced
    await _write_parts(connection, change)


async def _write_parts(connection: AsyncConnection, change: AgentChange) -> None:
    if change.credential is not None:
        await connection.execute(rows.insert_credential(change.credential))
    if change.rotation is not None:
        rotated = await connection.execute(rows.rotate_credential(change.rotation))
        if rotated.rowcount == 0:
            raise Raced
    if change.bundle is not None:
        await _write_bundle(connection, change)
    if change.revision is not None:
        await connection.execute(agent_revisions.insert().values(rows.revision_values(change.revision)))
    if change.deployment is not None:
        deployment = rows.deployment_values(change.deployment)
        await _insert_next(connection, agent_deployments, dict(deployment))
    if change.activation is not None:
        activation = rows.activation_values(change.activation)
        await _insert_next(connection, agent_activations, dict(activation))
    if change.schedules is not None:
        await sync_schedules(connection, change.agent, change.schedules.wanted, change.schedules.at)
    version = change.snapshot
    if version is not None:
        await connection.execute(agent_versions.insert().values(rows.version_values(version)))


async def _write_bundle(connection: AsyncConnection, change: AgentChange) -> None:
    assert change.bundle is not None
    bundle, org_id = change.bundle, change.agent.org_id
    same = (skill_bundles.c.org_id == org_id) & (skill_bundles.c.digest == bundle.digest)
    if (await connection.execute(sa.select(skill_bundles.c.digest).where(same))).first() is None:
        values = {"org_id": org_id, "digest": bundle.digest, "files": rows.files_of(bundle)}
        await connection.execute(skill_bundles.insert().values(values))


async def _insert_next(connection: AsyncConnection, table: sa.Table, values: dict[str, Any]) -> None:
    """Insert what comes last of its agent."""
    newest = sa.select(sa.func.max(table.c.ordinal)).where(table.c.agent_id == values["agent_id"])
    ordinal = ((await connection.execute(newest)).scalar() or 0) + 1
    await connection.execute(table.insert().values(**values, ordinal=ordinal))
