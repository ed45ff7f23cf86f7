"""What has become of agents, in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from opencomputer.server.domain.sessions.agents import Activation, AgentVersion, Deployment, Revision
from opencomputer.server.domain.sessions.skills import SkillBundle
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.sessions import agent_rows as rows
from opencomputer.server.stores.sql.sessions.agent_tables import (
    agent_activations,
    agent_deployments,
    agent_revisions,
    agent_versions,
    skill_bundles,
)
from opencomputer.wire.ids import AgentId, DeploymentId, OrgId


class SqlAgentHistory:
    """Implements AgentHistory."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def revisions(
        self, agent_id: AgentId, *, limit: int, before: int | None = None
    ) -> Sequence[Revision]:
        query = sa.select(agent_revisions).where(agent_revisions.c.agent_id == agent_id)
        if before is not None:
            query = query.where(agent_revisions.c.number < before)
        query = query.order_by(agent_revisions.c.number.desc()).limit(limit)
        return [rows.revision_of(row) for row in await self._database.rows(query)]

    async def revision(self, agent_id: AgentId, named: int | str) -> Revision | None:
        column = agent_revisions.c.number if isinstance(named, int) else agent_revisions.c.id
        query = sa.select(agent_revisions).where(agent_revisions.c.agent_id == agent_id, column == named)
        row = await self._database.first(query)
        return None if row is None else rows.revision_of(row)

    async def related(self, agent_id: AgentId, digest: str) -> Sequence[Revision]:
        its = agent_revisions.c.agent_id == agent_id
        newest = sa.select(sa.func.max(agent_revisions.c.number)).where(its).scalar_subquery()
        wanted = (agent_revisions.c.digest == digest) | (agent_revisions.c.number == newest)
        found = await self._database.rows(sa.select(agent_revisions).where(its, wanted))
        return [rows.revision_of(row) for row in found]

    async def bundle(self, org_id: OrgId, digest: str) -> SkillBundle | None:
        same = (skill_bundles.c.org_id == org_id) & (skill_bundles.c.digest == digest)
        row = await self._database.first(sa.select(skill_bundles).where(same))
        return None if row is None else rows.bundle_of(row)

    async def deployments(
        self, agent_id: AgentId, *, limit: int, before: DeploymentId | None = None
    ) -> Sequence[Deployment]:
        query = rows.deployments_with_revisions()
        query = _newest(query, agent_deployments, agent_id, before).limit(limit)
        return [rows.deployment_of(row) for row in await self._database.rows(query)]

    async def deployment(self, agent_id: AgentId, deployment_id: DeploymentId) -> Deployment | None:
        return await self._deployment(agent_id, agent_deployments.c.id == deployment_id)

    async def deployment_of_key(self, agent_id: AgentId, key: str) -> Deployment | None:
        return await self._deployment(agent_id, agent_deployments.c.idempotency_key == key)

    async def latest(self, agents: Sequence[AgentId]) -> Mapping[AgentId, Deployment]:
        its = agent_deployments.c.agent_id
        newest = (
            sa.select(its, sa.func.max(agent_deployments.c.ordinal).label("ordinal"))
            .where(its.in_(agents))
            .group_by(its)
            .subquery()
        )
        same = (newest.c.agent_id == its) & (newest.c.ordinal == agent_deployments.c.ordinal)
        found = await self._database.rows(rows.deployments_with_revisions().join(newest, same))
        return {AgentId(row.agent_id): rows.deployment_of(row) for row in found}

    async def activations(
        self, agent_id: AgentId, *, limit: int, before: str | None = None
    ) -> Sequence[Activation]:
        query = _newest(sa.select(agent_activations), agent_activations, agent_id, before).limit(limit)
        return [rows.activation_of(row) for row in await self._database.rows(query)]

    async def activation(self, agent_id: AgentId, activation_id: str) -> Activation | None:
        its = (agent_activations.c.agent_id == agent_id) & (agent_activations.c.id == activation_id)
        row = await self._database.first(sa.select(agent_activations).where(its))
        return None if row is None else rows.activation_of(row)

    async def versions(
        self, agent_id: AgentId, *, limit: int, before: int | None = None
    ) -> Sequence[AgentVersion]:
        query = sa.select(agent_versions).where(agent_versions.c.agent_id == agent_id)
        if before is not None:
            query = query.where(agent_versions.c.version < before)
        query = query.order_by(agent_versions.c.version.desc()).limit(limit)
        return [rows.version_of(row) for row in await self._database.rows(query)]

    async def _deployment(self, agent_id: AgentId, wanted: sa.ColumnElement[bool]) -> Deployment | None:
        its = agent_deployments.c.agent_id == agent_id
        row = await self._database.first(rows.deployments_with_revisions().where(its, wanted))
        return None if row is None else rows.deployment_of(row)


def _newest(
    query: sa.Select[*tuple[Any, ...]], table: sa.Table, agent_id: AgentId, before: str | None
) -> sa.Select[*tuple[Any, ...]]:
    """What is an agent's, newest first, from behind `before` on; nothing where that is not the agent's."""
    query = query.where(table.c.agent_id == agent_id)
    if before is not None:
        its = table.alias()
        mark = sa.select(its.c.ordinal).where(its.c.agent_id == agent_id, its.c.id == before)
        query = query.where(table.c.ordinal < mark.scalar_subquery())
    return query.order_by(table.c.ordinal.desc())
