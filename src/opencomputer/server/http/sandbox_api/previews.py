"""`…/preview`: records of ports, the token that visitors need, and grants to a port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.previews import PreviewAddress, check_port
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.body import json_body
from opencomputer.server.http.description import repeated
from opencomputer.server.http.preview_urls import grant_view, preview_view, url_under
from opencomputer.server.services.sandboxes.previews import WantedPreview
from opencomputer.wire.ids import GrantId, SandboxId
from opencomputer.wire.previews import CreateGrant, CreatePreview, GrantView, PreviewView, RotatedView

router = APIRouter(prefix="/sandboxes/{sandbox_id}/preview")


@dataclass(frozen=True)
class _Port:
    sandbox_id: SandboxId
    port: int


def _port_of(request: Request) -> _Port:
    text = request.path_params["port"]
    # Longer ones are no ports, and int() takes long for very long ones.
    port = int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else 0
    return _Port(SandboxId(request.path_params["sandbox_id"]), check_port(port))


PortOf = Annotated[_Port, Depends(_port_of)]


@router.post(
    "",
    status_code=201,
    response_model=PreviewView,
    response_model_exclude_none=True,
    responses=repeated(PreviewView),
)
async def create(
    request: Request,
    sandbox_id: str,
    caller: Key,
    services: ServicesOf,
    body: Annotated[CreatePreview, Depends(json_body(CreatePreview))],
) -> PreviewView | Response:
    """A second one for the same port is answered with the first."""
    if body.auth_config:
        raise InvalidInput(
            "authConfig must be empty: create the sandbox with previewAuth, or rotate its token",
            field="authConfig",
        )
    domain = body.domain.lower().rstrip(".") if body.domain else None
    address = PreviewAddress(SandboxId(sandbox_id), body.port, domain or services.presentation.sandbox_domain)
    wanted = WantedPreview(body.port, domain, url_under(request, services, address.host))
    made = await services.previews.records.register(caller.org_id, SandboxId(sandbox_id), wanted)
    view = preview_view(request, services, made.preview)
    if made.is_new:
        return view
    return JSONResponse(view.model_dump(mode="json", by_alias=True, exclude_none=True))


@router.get("", response_model_exclude_none=True)
async def list_previews(
    request: Request, sandbox_id: str, caller: Key, services: ServicesOf
) -> list[PreviewView]:
    found = await services.previews.records.list(caller.org_id, SandboxId(sandbox_id))
    return [preview_view(request, services, each) for each in found]


@router.post("/rotate")
async def rotate(sandbox_id: str, caller: Key, services: ServicesOf) -> RotatedView:
    token = await services.previews.records.rotate(caller.org_id, SandboxId(sandbox_id))
    return RotatedView(preview_auth_token=token)


@router.delete("/{port}", status_code=204)
async def delete(at: PortOf, caller: Key, services: ServicesOf) -> Response:
    await services.previews.records.delete(caller.org_id, at.sandbox_id, at.port)
    return Response(status_code=204)


@router.post("/{port}/grants", status_code=201, response_model_exclude_none=True)
async def create_grant(
    request: Request,
    at: PortOf,
    caller: Key,
    services: ServicesOf,
    body: Annotated[CreateGrant, Depends(json_body(CreateGrant))],
) -> GrantView:
    """A URL that lets in whoever has it, to this port only and for a while."""
    made = await services.previews.grants.add(caller.org_id, at.sandbox_id, at.port, body.ttl)
    return grant_view(request, services, made.record, made.token)


@router.get("/{port}/grants", response_model_exclude_none=True)
async def list_grants(request: Request, at: PortOf, caller: Key, services: ServicesOf) -> list[GrantView]:
    found = await services.previews.grants.list(caller.org_id, at.sandbox_id, at.port)
    return [grant_view(request, services, each) for each in found]


@router.delete("/{port}/grants/{grant_id}", status_code=204)
async def revoke_grant(at: PortOf, grant_id: str, caller: Key, services: ServicesOf) -> Response:
    await services.previews.grants.revoke(caller.org_id, at.sandbox_id, at.port, GrantId(grant_id))
    return Response(status_code=204)
