"""`/v3/agents/{agent}/skills` (agent-sessions.md section 3.6)."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request

from opencomputer.server.domain.sessions.errors import UnsupportedMediaType
from opencomputer.server.domain.sessions.skill_archives import MAX_ARCHIVE_BYTES, unpack
from opencomputer.server.http.description import raw_body
from opencomputer.server.http.session_api import agent_views
from opencomputer.server.http.session_api.auth import Durable, OrgKey
from opencomputer.server.http.session_api.body import read_body
from opencomputer.server.http.session_api.credentials import deployer_of
from opencomputer.wire.durable_agents import AgentSkillsView, DeployedView

router = APIRouter(prefix="/agents/{agent}/skills")

_ZIP = frozenset({"application/zip", "application/x-zip-compressed"})


@router.get("")
async def get(agent: str, caller: OrgKey, durable: Durable) -> AgentSkillsView:
    """Those of the active revision."""
    of = await durable.agents.get(caller.org_id, agent)
    return agent_views.skills(of.revision, await durable.deployments.skills(of, of.revision))


@router.put("", openapi_extra=raw_body("application/zip"))
async def put(request: Request, agent: str, caller: OrgKey, durable: Durable) -> DeployedView:
    """Replace them by those in an archive: a new revision, active at once."""
    await durable.deployments.require_takes_skills(caller.org_id, agent)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in _ZIP:
        raise UnsupportedMediaType("the body must be application/zip")
    archive = await read_body(request, MAX_ARCHIVE_BYTES)
    bundle = await asyncio.to_thread(unpack, archive)
    edited = await durable.deployments.set_skills(caller.org_id, agent, deployer_of(caller), bundle)
    assert edited.deployment is not None
    return agent_views.deployed(edited.agent, edited.deployment)


@router.delete("")
async def delete(agent: str, caller: OrgKey, durable: Durable) -> DeployedView:
    """Remove them all: a new revision, active at once."""
    await durable.deployments.require_takes_skills(caller.org_id, agent)
    edited = await durable.deployments.set_skills(caller.org_id, agent, deployer_of(caller), None)
    assert edited.deployment is not None
    return agent_views.deployed(edited.agent, edited.deployment)
