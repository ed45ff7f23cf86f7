"""The URL of an agent, for programs that know nothing else of us (agent-sessions.md sections 3.2, 3.3).

What is wrong is told in an order that says nothing about agents and hooks to those who do not know them.
"""

from __future__ import annotations

import html
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import HTMLResponse

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.sessions.access import TokenRequest
from opencomputer.server.domain.sessions.hooks import MAX_BODY_BYTES, Hook
from opencomputer.server.domain.sessions.idempotency import checked_key
from opencomputer.server.http.access_log import request_id_of
from opencomputer.server.http.auth import ServicesOf, services_of
from opencomputer.server.http.render import public_origin
from opencomputer.server.http.session_api.auth import Durable, OrgKey
from opencomputer.server.http.session_api.body import check_media_type, json_value, read_body
from opencomputer.server.http.session_api.idempotency import IdempotencyKey
from opencomputer.server.services.sessions.hooks import nothing_there
from opencomputer.wire.starters import (
    HookReceipt,
    InvocationReceipt,
    InvokedSession,
    SessionLinks,
    StartedSession,
)

AGENT_URL_PREFIX = "/a/agt-"
_ANY_JSON: dict[str, Any] = {"content": {"application/json": {"schema": {}}}}
_WEBHOOK_ID = "webhook-id"
_GUIDE = """<!doctype html>
<title>The URL of an agent</title>
<h1>The URL of an agent</h1>
<p>Send JSON here, and a session of the agent begins to work on it:</p>
<pre>curl -X POST {url} \\
  -H "Authorization: Bearer $OPENCOMPUTER_API_KEY" \\
  -H "Content-Type: application/json" \\
  -H "Idempotency-Key: any-text-that-names-this-request" \\
  -d '{{"anything": "you like"}}'</pre>
<p>The answer names the session, and has a token that reads and steers it for an hour.</p>
"""


def _no_query(request: Request) -> None:
    if request.url.query:
        raise InvalidInput("the URL of an agent takes no query")


router = APIRouter(prefix=AGENT_URL_PREFIX + "{agent}", dependencies=[Depends(_no_query)])


async def _hook(agent: str, token: str, services: Durable) -> Hook:
    return await services.hooks.open(f"agt_{agent}", token)


async def _payload(request: Request) -> Any:
    """One JSON value of any type."""
    check_media_type(request, required=True)
    body = await read_body(request, MAX_BODY_BYTES)
    return json_value(body)


async def _payload_or_nothing(request: Request) -> Any:
    """The same; nothing at all is null."""
    if request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers:
        return None
    check_media_type(request, required=True)
    body = await read_body(request, MAX_BODY_BYTES)
    return json_value(body) if body else None


def _webhook_key(request: Request, own: IdempotencyKey) -> str | None:
    """Of senders that know of no key: what names a message of theirs."""
    return own if own is not None else checked_key(request.headers.get(_WEBHOOK_ID), _WEBHOOK_ID)


@router.post("/hooks/{token}", openapi_extra={"requestBody": {"required": False, **_ANY_JSON}})
async def receive(
    request: Request,
    services: Durable,
    hook: Annotated[Hook, Depends(_hook)],
    payload: Annotated[Any, Depends(_payload_or_nothing)],
    key: Annotated[str | None, Depends(_webhook_key)],
) -> HookReceipt:
    """Whoever knows this URL starts a session with what is sent; with the same key, or `webhook-id`, once."""
    admitted = await services.hooks.receive(hook, payload, key)
    session = admitted.session
    return HookReceipt(
        request_id=request_id_of(request.scope),
        session=StartedSession(id=session.id, status=session.status),
        replayed=admitted.replayed,
    )


async def invoke(
    request: Request,
    agent: str,
    caller: OrgKey,
    payload: Annotated[Any, Depends(_payload)],
    key: IdempotencyKey,
) -> InvocationReceipt:
    """Start a session with what is sent."""
    services = services_of(request)
    durable = services.durable
    found = await durable.agents.find(caller.org_id, f"agt_{agent}")
    if found is None:
        raise nothing_there()
    admitted = await durable.hooks.invoke(found, payload, key)
    session = admitted.session
    below = f"{public_origin(request, services)}/v3/sessions/{session.id}"
    return InvocationReceipt(
        request_id=request_id_of(request.scope),
        session=InvokedSession(id=session.id, status=session.status, head=session.head),
        client_token=durable.client_tokens.mint(caller.org_id, session.id, TokenRequest()).secret,
        links=SessionLinks(events=f"{below}/events", messages=f"{below}/messages"),
        replayed=admitted.replayed,
    )


def guide(request: Request, agent: str, services: ServicesOf) -> HTMLResponse:
    """How this URL is used: the same text whether or not there is such an agent."""
    url = f"{public_origin(request, services)}{AGENT_URL_PREFIX}{agent}"
    return HTMLResponse(_GUIDE.format(url=html.escape(url)))


for _path, _shown in (("", False), ("/", True)):
    router.add_api_route(
        _path,
        invoke,
        methods=["POST"],
        status_code=202,
        include_in_schema=_shown,
        openapi_extra={"requestBody": {"required": True, **_ANY_JSON}},
    )
    router.add_api_route(_path, guide, methods=["GET"], include_in_schema=_shown, response_class=HTMLResponse)
