"""`…/agent`: Claude sessions inside a sandbox."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from opencomputer.server.http import render
from opencomputer.server.http.auth import Live, ServicesOf
from opencomputer.server.http.body import json_body
from opencomputer.server.http.description import not_offered
from opencomputer.server.services.sandboxes.agents import AgentRequest
from opencomputer.wire.agents import AgentView, Prompt, StartAgent
from opencomputer.wire.ids import ProcessId
from opencomputer.wire.processes import Signal

router = APIRouter(prefix="/sandboxes/{sandbox_id}/agent")


@router.post(
    "",
    status_code=201,
    response_model_exclude_none=True,
    responses=not_offered("The sandbox's template has no agent runner."),
)
async def start(
    live: Live, services: ServicesOf, body: Annotated[StartAgent, Depends(json_body(StartAgent))]
) -> AgentView:
    request = AgentRequest(prompt=body.prompt, configuration=body.configuration())
    return render.agent(live.id, await services.agents.start(live, request))


@router.get("", response_model_exclude_none=True)
async def list_agents(live: Live, services: ServicesOf) -> list[AgentView]:
    return [render.agent(live.id, record) for record in await services.agents.list(live)]


@router.post("/{session_id}/kill", status_code=204)
async def kill(
    live: Live, services: ServicesOf, session_id: str, body: Annotated[Signal, Depends(json_body(Signal))]
) -> Response:
    await services.agents.kill(live, ProcessId(session_id), body.signal)
    return Response(status_code=204)


@router.post("/{session_id}/prompt", status_code=204)
async def prompt(
    live: Live, services: ServicesOf, session_id: str, body: Annotated[Prompt, Depends(json_body(Prompt))]
) -> Response:
    await services.agents.prompt(live, ProcessId(session_id), body.text)
    return Response(status_code=204)


@router.post("/{session_id}/interrupt", status_code=204)
async def interrupt(live: Live, services: ServicesOf, session_id: str) -> Response:
    await services.agents.interrupt(live, ProcessId(session_id))
    return Response(status_code=204)
