"""`/api/sandboxes`: create, get, list, kill, timeout, token."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from opencomputer.server.domain.errors import Gone, InvalidInput, NotSupported
from opencomputer.server.domain.limits import check_environment, check_metadata, resolve_shape
from opencomputer.server.domain.sandbox import TERMINAL, SandboxState, stored_as
from opencomputer.server.http import render
from opencomputer.server.http.auth import DataPlane, Key, ServicesOf
from opencomputer.server.http.body import json_body
from opencomputer.server.services.facade import Services
from opencomputer.server.services.sandboxes.lifecycle import MAX_PAGE, NewSandbox
from opencomputer.wire.ids import SandboxId
from opencomputer.wire.sandboxes import CreateSandbox, SandboxView, SetTimeout, TokenView

control = APIRouter(prefix="/sandboxes")
data_plane = APIRouter(prefix="/sandboxes/{sandbox_id}")

MAX_IDEMPOTENCY_KEY = 255
_LISTABLE = {
    each.value: stored_as(each)
    for each in (SandboxState.RUNNING, SandboxState.HIBERNATED, SandboxState.STOPPED)
}
_DEFAULT = "running,hibernated"


def idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= MAX_IDEMPOTENCY_KEY:
        raise InvalidInput(
            f"Idempotency-Key must have 1 to {MAX_IDEMPOTENCY_KEY} characters", field="Idempotency-Key"
        )
    return key


@control.post("", status_code=201, response_model_exclude_none=True)
async def create(
    request: Request,
    caller: Key,
    services: ServicesOf,
    body: Annotated[CreateSandbox, Depends(json_body(CreateSandbox))],
    key: Annotated[str | None, Depends(idempotency_key)],
) -> SandboxView:
    fingerprint = hashlib.sha256(body.model_dump_json().encode()).hexdigest()
    created = await services.lifecycle.create(caller.org_id, _new_sandbox(body, services, key, fingerprint))
    row = created.sandbox
    if await request.is_disconnected() and key is None:
        # Nobody has learnt its id, so nobody could ever use or kill it.
        await services.lifecycle.kill(caller.org_id, row.id)
    return render.sandbox(request, services, row)


def _new_sandbox(body: CreateSandbox, services: Services, key: str | None, fingerprint: str) -> NewSandbox:
    _refuse_later_parts(body)
    shape = resolve_shape(
        body.memory_mb, body.cpu_count, body.disk_mb, disk_cap_mb=services.presentation.disk_cap_mb
    )
    check_environment(body.envs or {})
    check_metadata(body.metadata or {})
    return NewSandbox(
        template=body.template_id,
        shape=shape,
        timeout_seconds=body.timeout,
        environment=body.envs or {},
        metadata=body.metadata or {},
        alias=body.alias,
        network_enabled=body.network_enabled,
        idempotency_key=key,
        request_hash=fingerprint,
    )


def _refuse_later_parts(body: CreateSandbox) -> None:
    if body.image and body.snapshot:
        raise InvalidInput("image and snapshot exclude each other", field="image")
    parts = {
        "image": body.image,
        "snapshot": body.snapshot,
        "secretStore": body.secret_store,
        "previewAuth": body.preview_auth,
        "webhooks": body.webhooks,
    }
    for name, value in parts.items():
        if value:
            raise NotSupported(f"{name} is not supported by this server yet", field=name)


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
async def kill(sandbox_id: str, caller: Key, services: ServicesOf) -> Response:
    await services.lifecycle.kill(caller.org_id, SandboxId(sandbox_id))
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
