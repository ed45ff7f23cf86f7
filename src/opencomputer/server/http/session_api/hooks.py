"""`/v3/agents/…/hooks`: URLs that start sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Request

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.sessions.hooks import Hook
from opencomputer.server.http.auth import ServicesOf
from opencomputer.server.http.render import public_origin
from opencomputer.server.http.session_api.agent_views import invoke_url
from opencomputer.server.http.session_api.body import json_body
from opencomputer.server.http.session_api.paging import Bounds, page, page_of
from opencomputer.server.http.session_api.schedules import Owned
from opencomputer.server.http.session_api.session_requests import moment_of
from opencomputer.wire.starters import CreateHook, HooksView, HookView, NewHookView

router = APIRouter(prefix="/agents/{agent}/hooks")

_HOOKS = Bounds(50, 100)
_WORDS = {None: False, "false": False, "0": False, "true": True, "1": True}


@router.post("", status_code=201)
async def create(
    request: Request,
    services: ServicesOf,
    of: Owned,
    body: Annotated[CreateHook, Depends(json_body(CreateHook))],
) -> NewHookView:
    """Done as often as it is asked for: the URL is in this answer and nowhere else."""
    expires_at = moment_of(body.expires_at, "expires_at")
    made = await services.durable.hooks.create(of, body.name, expires_at)
    url = f"{invoke_url(public_origin(request, services), of)}/hooks/{made.token}"
    return NewHookView(hook=_shown(made.hook, services.clock.now()), hook_url=url)


@router.get("")
async def list_hooks(
    services: ServicesOf,
    of: Owned,
    include_revoked: str | None = None,
    limit: str | None = None,
    cursor: str | None = None,
) -> HooksView:
    if include_revoked not in _WORDS:
        raise InvalidInput("include_revoked must be true or false", field="include_revoked")
    hooks, revoked = services.durable.hooks, _WORDS[include_revoked]
    filters = {"list": "hooks", "agent": of.id, "revoked": str(revoked)}
    found, following = await page(
        page_of(limit, cursor, _HOOKS, filters),
        lambda each: hooks.find(of, each),
        lambda most, last: hooks.list(of, revoked=revoked, limit=most, before=last),
    )
    now = services.clock.now()
    return HooksView(data=[_shown(each, now) for each in found], next_cursor=following)


@router.get("/{hook}")
async def get(services: ServicesOf, of: Owned, hook: str) -> HookView:
    return _shown(await services.durable.hooks.get(of, hook), services.clock.now())


@router.delete("/{hook}", status_code=204)
async def revoke(services: ServicesOf, of: Owned, hook: str) -> None:
    """For good: its URL is nothing any more. Sessions that it started go on."""
    await services.durable.hooks.revoke(of, hook)


def _shown(hook: Hook, now: datetime) -> HookView:
    return HookView(
        id=hook.id,
        agent_id=hook.agent_id,
        name=hook.name,
        status=hook.status(now),
        secret_last4=hook.secret_last4,
        revoked_reason=hook.revoked_reason,
        expires_at=hook.expires_at,
        created_at=hook.created_at,
    )
