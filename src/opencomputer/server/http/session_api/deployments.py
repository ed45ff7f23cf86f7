"""Deployments, revisions and activations of agents (agent-sessions.md sections 3.4 and 3.5)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.responses import Response

from opencomputer.server.domain.errors import Conflict, InvalidInput
from opencomputer.server.domain.sessions.errors import Unsupported
from opencomputer.server.domain.sessions.idempotency import checked_key, request_hash
from opencomputer.server.domain.sessions.skills import (
    SkillBundle,
    SkillText,
    bundle_of,
    is_executable,
    mode_of,
)
from opencomputer.server.http.description import repeated
from opencomputer.server.http.session_api import agent_views
from opencomputer.server.http.session_api.agents import BOUNDS
from opencomputer.server.http.session_api.auth import Durable, OrgKey
from opencomputer.server.http.session_api.body import Sent, sent_body
from opencomputer.server.http.session_api.credentials import deployer_of
from opencomputer.server.http.session_api.idempotency import IdempotencyKey
from opencomputer.server.http.session_api.paging import Bounds, limit_of, page, page_of
from opencomputer.server.http.session_api.schedules import wanted
from opencomputer.server.services.sessions.deployments import InlineDeployment
from opencomputer.wire.durable_agents import (
    ActivatedView,
    ActivationPage,
    CreateDeployment,
    CreateRevision,
    DeployedView,
    DeployInput,
    DeploymentAnswer,
    DeploymentLogPage,
    DeploymentPage,
    DeploymentView,
    DeployPage,
    InlineSkillFile,
    RevisionPage,
    RevisionWithFilesView,
)

router = APIRouter(prefix="/agents/{agent}")

_DEPLOYMENTS = Bounds(25, 100)
_LOGS = Bounds(200, 500)
_LONGEST_NUMBER = 10


class NotLinked(Conflict):
    """The agent is not linked to a repository."""

    code = "not_linked"


@router.post("/deployments", status_code=201, responses=repeated(DeploymentAnswer))
async def deploy(
    agent: str,
    response: Response,
    caller: OrgKey,
    durable: Durable,
    sent: Annotated[Sent[CreateDeployment], Depends(sent_body(CreateDeployment))],
    header: IdempotencyKey,
) -> DeploymentAnswer:
    """201 for a new one, 200 for the one that the same request made before."""
    body = sent.value
    key = checked_key(body.idempotency_key, "idempotency_key") or header
    deployment = await _inline(body.input, activate=body.activate, key=key, whole=sent.whole)
    edited = await durable.deployments.deploy(caller.org_id, agent, deployer_of(caller), deployment)
    assert edited.deployment is not None
    response.status_code = 200 if edited.replayed else 201
    return DeploymentAnswer(deployment=agent_views.deployment(edited.agent, edited.deployment))


@router.get("/deployments")
async def list_deployments(
    agent: str, caller: OrgKey, durable: Durable, limit: str | None = None, before: str | None = None
) -> DeploymentPage:
    of = await durable.agents.get(caller.org_id, agent)
    found, following = await page(
        page_of(limit, before, _DEPLOYMENTS, {"list": "deployments", "agent": of.id}),
        lambda each: durable.deployments.find(of, each),
        lambda most, last: durable.deployments.list(of, limit=most, before=last and last.id),
    )
    data = [agent_views.deployment(of, each) for each in found]
    return DeploymentPage(data=data, next_cursor=following)


@router.get("/deployments/{deployment}")
async def get_deployment(agent: str, deployment: str, caller: OrgKey, durable: Durable) -> DeploymentView:
    of = await durable.agents.get(caller.org_id, agent)
    return agent_views.deployment(of, await durable.deployments.get(of, deployment))


@router.get("/deployments/{deployment}/logs")
async def logs(
    agent: str,
    deployment: str,
    caller: OrgKey,
    durable: Durable,
    limit: str | None = None,
    after: str | None = None,
) -> DeploymentLogPage:
    most, first = limit_of(limit, _LOGS), _position(after)
    of = await durable.agents.get(caller.org_id, agent)
    its = await durable.deployments.get(of, deployment)
    last = min(first + most, len(its.log))
    data = [agent_views.log_line(its, seq) for seq in range(first + 1, last + 1)]
    has_more = last < len(its.log)
    return DeploymentLogPage(data=data, next_cursor=str(last) if has_more else None, has_more=has_more)


@router.get("/deploys")
async def list_deploys(
    agent: str, caller: OrgKey, durable: Durable, limit: str | None = None, before: str | None = None
) -> DeployPage:
    of = await durable.agents.get(caller.org_id, agent)
    found, following = await page(
        page_of(limit, before, _DEPLOYMENTS, {"list": "deployments", "agent": of.id}),
        lambda each: durable.deployments.find(of, each),
        lambda most, last: durable.deployments.list(of, limit=most, before=last and last.id),
    )
    return DeployPage(data=[agent_views.deploy(each) for each in found], next_cursor=following)


@router.post("/revisions")
async def create_revision(
    agent: str,
    caller: OrgKey,
    durable: Durable,
    sent: Annotated[Sent[CreateRevision], Depends(sent_body(CreateRevision))],
    header: IdempotencyKey,
) -> DeployedView:
    """The shorthand for an inline deployment."""
    body = sent.value
    key = checked_key(body.idempotency_key, "idempotency_key") or header
    deployment = await _inline(body.input or body, activate=body.activate, key=key, whole=sent.whole)
    edited = await durable.deployments.deploy(caller.org_id, agent, deployer_of(caller), deployment)
    assert edited.deployment is not None
    return agent_views.deployed(edited.agent, edited.deployment)


@router.get("/revisions")
async def list_revisions(
    agent: str, caller: OrgKey, durable: Durable, limit: str | None = None, cursor: str | None = None
) -> RevisionPage:
    of = await durable.agents.get(caller.org_id, agent)
    found, following = await page(
        page_of(limit, cursor, BOUNDS, {"list": "revisions", "agent": of.id}),
        lambda each: durable.agents.revision(of, each),
        lambda most, last: durable.deployments.revisions(of, limit=most, before=last and last.number),
    )
    return RevisionPage(data=[agent_views.revision(of, each) for each in found], next_cursor=following)


@router.get("/revisions/{revision}")
async def get_revision(agent: str, revision: str, caller: OrgKey, durable: Durable) -> RevisionWithFilesView:
    of = await durable.agents.get(caller.org_id, agent)
    found = await durable.agents.revision(of, _named(revision))
    return agent_views.revision_with_files(of, found, await durable.deployments.skills(of, found))


@router.post("/revisions/{revision}/activate")
async def activate(agent: str, revision: str, caller: OrgKey, durable: Durable) -> ActivatedView:
    """Whatever is sent along does not count."""
    after = await durable.deployments.activate(caller.org_id, agent, deployer_of(caller), _named(revision))
    return ActivatedView(active_revision_id=after.revision.id)


@router.get("/activations")
async def list_activations(
    agent: str, caller: OrgKey, durable: Durable, limit: str | None = None, cursor: str | None = None
) -> ActivationPage:
    of = await durable.agents.get(caller.org_id, agent)
    found, following = await page(
        page_of(limit, cursor, BOUNDS, {"list": "activations", "agent": of.id}),
        lambda each: durable.deployments.activation(of, each),
        lambda most, last: durable.deployments.activations(of, limit=most, before=last and last.id),
    )
    return ActivationPage(data=[agent_views.activation(each) for each in found], next_cursor=following)


async def _inline(given: DeployInput, *, activate: bool, key: str | None, whole: Any) -> InlineDeployment:
    _check_offered(given)
    if given.prompt is None:
        raise InvalidInput("prompt: an inline deployment needs one", field="input.prompt")
    # Reading the front matter of many skills takes its time.
    skills = await asyncio.to_thread(_bundle, given.skills or [])
    unhashed = ("idempotency_key", "client_context")
    return InlineDeployment(
        prompt=given.prompt,
        model=given.model,
        skills=skills,
        activate=activate,
        idempotency_key=key,
        schedules=None if given.schedules is None else [wanted(each) for each in given.schedules],
        request_hash=request_hash({name: value for name, value in whole.items() if name not in unhashed}),
    )


def _check_offered(given: DeployInput) -> None:
    """Raises what says why a deployment of this kind is not for this server or this agent."""
    if given.type == "github":
        raise NotLinked(field="input.type")
    if given.type == "source":
        raise Unsupported("input.type: builds are for Flue agents only", field="input.type")
    if given.type != "inline":
        raise InvalidInput("input.type: must be inline, github or source", field="input.type")
    if given.runtime is not None and given.runtime.type != "default":
        raise Unsupported("input.runtime: only the default one can be deployed", field="input.runtime")
    if given.mcp or given.mcp_servers:
        raise Unsupported("input: MCP servers cannot be configured", field="input")


def _bundle(files: list[InlineSkillFile]) -> SkillBundle | None:
    return bundle_of(
        SkillText(each.path, each.content, is_executable(mode_of(each.mode, each.path))) for each in files
    )


def _named(revision: str) -> int | str:
    """A number where it is one, else an id."""
    is_number = revision.isascii() and revision.isdigit() and len(revision) <= _LONGEST_NUMBER
    return int(revision) if is_number else revision


def _position(after: str | None) -> int:
    if after is None:
        return 0
    if not (after.isascii() and after.isdigit() and len(after) <= _LONGEST_NUMBER):
        raise InvalidInput("after: must be the cursor of a line of this log", field="after")
    return int(after)
