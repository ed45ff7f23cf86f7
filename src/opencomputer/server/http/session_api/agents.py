"""`/v3/agents` (agent-sessions.md section 3.1)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.sessions.agents import Agent
from opencomputer.server.domain.sessions.session import SessionLimits
from opencomputer.server.http.auth import ServicesOf
from opencomputer.server.http.description import repeated
from opencomputer.server.http.render import public_origin
from opencomputer.server.http.session_api import agent_views
from opencomputer.server.http.session_api.auth import Durable, OrgKey
from opencomputer.server.http.session_api.body import json_body
from opencomputer.server.http.session_api.credentials import deployer_of
from opencomputer.server.http.session_api.paging import Bounds, page, page_of
from opencomputer.server.services.facade import Services
from opencomputer.server.services.sessions.agents import UNSET, AgentPatch, NewAgent
from opencomputer.wire.durable_agents import (
    AgentLimits,
    AgentPage,
    AgentVersionPage,
    CreateAgent,
    DurableAgentView,
    UpdateAgent,
)

router = APIRouter(prefix="/agents")

BOUNDS = Bounds(100, 200)
"""Of everything about agents that has no other."""


@router.post("", status_code=201, responses=repeated(DurableAgentView))
async def create(
    request: Request,
    response: Response,
    caller: OrgKey,
    services: ServicesOf,
    body: Annotated[CreateAgent, Depends(json_body(CreateAgent))],
) -> DurableAgentView:
    """201 for a new agent, 200 for one that is there and as it should be."""
    wanted = NewAgent(
        name=body.name,
        model=body.model,
        runtime=body.runtime,
        prompt=body.prompt,
        key=None if body.key is None else body.key.get_secret_value(),
        credential=body.credential,
        limits=_limits(body.limits),
        default_repo=body.default_repo,
        checkpoints_kept=None if body.checkpoints is None else body.checkpoints.keep,
    )
    agent, is_new = await services.durable.agents.create(caller.org_id, deployer_of(caller), wanted)
    response.status_code = 201 if is_new else 200
    return await _shown(request, services, agent)


@router.get("")
async def list_agents(
    request: Request,
    caller: OrgKey,
    services: ServicesOf,
    limit: str | None = None,
    cursor: str | None = None,
) -> AgentPage:
    agents = services.durable.agents
    asked = page_of(limit, cursor, BOUNDS, {"list": "agents"})
    found, following = await page(
        asked,
        lambda agent_id: agents.find(caller.org_id, agent_id),
        lambda most, last: agents.list(caller.org_id, limit=most, before=last),
    )
    latest = await agents.latest_deployments(found)
    origin = public_origin(request, services)
    data = [agent_views.agent(origin, each, latest.get(each.id)) for each in found]
    return AgentPage(data=data, next_cursor=following)


@router.get("/{agent}")
async def get(request: Request, agent: str, caller: OrgKey, services: ServicesOf) -> DurableAgentView:
    return await _shown(request, services, await services.durable.agents.get(caller.org_id, agent))


@router.patch("/{agent}")
async def update(
    request: Request,
    agent: str,
    caller: OrgKey,
    services: ServicesOf,
    body: Annotated[UpdateAgent, Depends(json_body(UpdateAgent))],
) -> DurableAgentView:
    patch = _patch(body)
    changed = await services.durable.agents.update(caller.org_id, agent, deployer_of(caller), patch)
    return await _shown(request, services, changed)


@router.delete("/{agent}", status_code=204)
async def delete(agent: str, caller: OrgKey, durable: Durable) -> Response:
    """Its sessions stay, to be read."""
    await durable.agents.delete(caller.org_id, agent)
    return Response(status_code=204)


@router.get("/{agent}/versions")
async def versions(
    agent: str, caller: OrgKey, durable: Durable, limit: str | None = None, cursor: str | None = None
) -> AgentVersionPage:
    agents = durable.agents
    of = await agents.get(caller.org_id, agent)
    found, following = await page(
        page_of(limit, cursor, BOUNDS, {"list": "versions", "agent": of.id}),
        lambda version: agents.version(of, version),
        lambda most, last: agents.versions(of, limit=most, before=None if last is None else last.version),
    )
    return AgentVersionPage(data=[agent_views.version(each) for each in found], next_cursor=following)


async def _shown(request: Request, services: Services, agent: Agent) -> DurableAgentView:
    latest = await services.durable.agents.latest_deployments([agent])
    return agent_views.agent(public_origin(request, services), agent, latest.get(agent.id))


def _limits(sent: AgentLimits | None) -> SessionLimits | None:
    if sent is None:
        return None
    return SessionLimits(tokens=sent.tokens, turn_seconds=sent.turn_seconds, turns=sent.turns)


def _patch(body: UpdateAgent) -> AgentPatch:
    """Raises InvalidInput for what cannot be changed, and for null where that means nothing."""
    given = body.model_fields_set
    for member in ("name", "runtime"):
        if member in given:
            raise InvalidInput(f"{member}: cannot be changed", field=member)
    for member in ("prompt", "model", "key"):
        if member in given and getattr(body, member) is None:
            raise InvalidInput(f"{member}: must not be null", field=member)
    keep = 0 if body.checkpoints is None else body.checkpoints.keep
    return AgentPatch(
        prompt=body.prompt,
        model=body.model,
        key=None if body.key is None else body.key.get_secret_value(),
        credential=body.credential if "credential" in given else UNSET,
        limits=_limits(body.limits) if "limits" in given else UNSET,
        default_repo=body.default_repo if "default_repo" in given else UNSET,
        checkpoints_kept=keep if "checkpoints" in given else None,
    )
