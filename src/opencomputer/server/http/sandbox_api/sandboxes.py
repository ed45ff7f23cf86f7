"""`/api/sandboxes`: create, get, list, kill, timeout, token."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from opencomputer.server.domain.errors import Gone, InvalidInput
from opencomputer.server.domain.sandbox import TERMINAL, SandboxState, stored_as
from opencomputer.server.http import render
from opencomputer.server.http.auth import DataPlane, Key, ServicesOf
from opencomputer.server.http.body import MAX_IMAGE_BODY_BYTES, json_body
from opencomputer.server.http.description import BUILD_STREAM
from opencomputer.server.http.sandbox_api.creation import carry_out, prepare
from opencomputer.server.http.sandbox_api.inline_webhooks import inline_views
from opencomputer.server.http.sse import BuildStream, wants_stream
from opencomputer.server.services.sandboxes.build_log import Listener, nobody
from opencomputer.server.services.sandboxes.lifecycle import MAX_PAGE
from opencomputer.wire.ids import SandboxId
from opencomputer.wire.sandboxes import CreateSandbox, SandboxView, SetTimeout, TokenView

control = APIRouter(prefix="/sandboxes")
data_plane = APIRouter(prefix="/sandboxes/{sandbox_id}")

MAX_IDEMPOTENCY_KEY = 255
IDEMPOTENCY_HEADER = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "the same request with the same key is done once, and gets the same answer",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY},
}
_LISTABLE = {
    each.value: stored_as(each)
    for each in (SandboxState.RUNNING, SandboxState.HIBERNATED, SandboxState.STOPPED)
}
_DEFAULT = "running,hibernated"
_TRUE = frozenset({"1", "true", "yes", "on"})


def idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= MAX_IDEMPOTENCY_KEY:
        raise InvalidInput(
            f"Idempotency-Key must have 1 to {MAX_IDEMPOTENCY_KEY} characters", field="Idempotency-Key"
        )
    return key


@control.post(
    "",
    status_code=201,
    response_model=SandboxView,
    response_model_exclude_none=True,
    responses=BUILD_STREAM,
)
async def create(
    request: Request,
    caller: Key,
    services: ServicesOf,
    body: Annotated[CreateSandbox, Depends(json_body(CreateSandbox, MAX_IMAGE_BODY_BYTES))],
    key: Annotated[str | None, Depends(idempotency_key)],
) -> SandboxView | Response:
    fingerprint = _fingerprint(body) if body.image is None else await asyncio.to_thread(_fingerprint, body)
    creation = await prepare(services, caller.org_id, body, key, fingerprint)

    async def make(log: Listener) -> SandboxView:
        made = await carry_out(services, caller.org_id, creation, log)
        token = creation.preview_token_of(made.sandbox)
        view = render.sandbox(request, services, made.sandbox, preview_token=token, warnings=made.warnings)
        if body.webhooks:
            view.webhooks = await inline_views(services, made.sandbox, body.webhooks)
        return view

    async def undo(made: SandboxView) -> None:
        if key is None:
            # Nobody has learnt its id, so nobody could ever use or kill it.
            await services.lifecycle.kill(caller.org_id, SandboxId(made.sandbox_id))

    if creation.resolve is not None and wants_stream(request):
        return BuildStream(make, undo)
    made = await make(nobody)
    if await request.is_disconnected():
        await undo(made)
    return made


def _fingerprint(body: CreateSandbox) -> str:
    return hashlib.sha256(body.model_dump_json().encode()).hexdigest()


@control.get("", response_model_exclude_none=True)
async def list_sandboxes(
    request: Request,
    response: Response,
    caller: Key,
    services: ServicesOf,
    status: str | None = None,
    limit: Annotated[str, Query()] = str(MAX_PAGE),
    cursor: str | None = None,
) -> list[SandboxView]:
    """Newest first. A full page carries the next one's cursor in the `X-Next-Cursor` header."""
    size = _page_size(limit)
    rows = await services.lifecycle.list(
        caller.org_id, _states(status), limit=size, after=SandboxId(cursor) if cursor else None
    )
    if len(rows) == size:
        response.headers["X-Next-Cursor"] = rows[-1].id
    return [render.sandbox(request, services, row) for row in rows]


def _page_size(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_PAGE:
        raise InvalidInput(f"limit must be a whole number from 1 to {MAX_PAGE}", field="limit")
    return int(text)


def _states(text: str | None) -> list[SandboxState]:
    """`all`, or a comma-separated list; some of its words are states that no sandbox of this server has."""
    wanted = ",".join(_LISTABLE) if text == "all" else text or _DEFAULT
    names = [name.strip() for name in wanted.split(",")]
    known = {*_LISTABLE, "error", "pending", "migrating", "failed"}
    if unknown := [name for name in names if name not in known]:
        raise InvalidInput(
            f"status {unknown[0]!r} is not one of {', '.join(sorted(known))}, all", field="status"
        )
    return sorted({state for name in names for state in _LISTABLE.get(name, ())})


@control.get("/{sandbox_id}", response_model_exclude_none=True)
async def get(request: Request, sandbox_id: str, caller: DataPlane, services: ServicesOf) -> SandboxView:
    row = await services.lifecycle.get(caller.org_id, SandboxId(sandbox_id))
    return render.sandbox(request, services, row)


@control.delete("/{sandbox_id}", status_code=204)
async def kill(
    sandbox_id: str,
    caller: Key,
    services: ServicesOf,
    delete_secret_store: Annotated[str, Query(alias="deleteSecretStore")] = "",
) -> Response:
    await services.lifecycle.kill(caller.org_id, SandboxId(sandbox_id))
    if delete_secret_store.lower() in _TRUE:
        sandbox = await services.lifecycle.get(caller.org_id, SandboxId(sandbox_id))
        await services.secret_stores.delete_attached(sandbox)
    return Response(status_code=204)


@control.post("/{sandbox_id}/token/refresh")
async def refresh_token(sandbox_id: str, caller: DataPlane, services: ServicesOf) -> TokenView:
    row = await services.lifecycle.get(caller.org_id, SandboxId(sandbox_id))
    if row.state in TERMINAL:
        raise Gone
    return TokenView(token=services.access.sandbox_token(row.org_id, row.id))


@data_plane.post("/timeout", status_code=204)
async def set_timeout(
    sandbox_id: str,
    caller: DataPlane,
    services: ServicesOf,
    body: Annotated[SetTimeout, Depends(json_body(SetTimeout))],
) -> Response:
    await services.lifecycle.set_timeout(caller.org_id, SandboxId(sandbox_id), body.timeout)
    return Response(status_code=204)
