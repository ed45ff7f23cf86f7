"""`/v3/credentials` (agent-sessions.md section 3.11)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from opencomputer.server.domain.access import KeyCaller
from opencomputer.server.domain.sessions.agents import Deployer
from opencomputer.server.domain.sessions.credentials import ModelCredential
from opencomputer.server.http.session_api.auth import Durable, OrgKey
from opencomputer.server.http.session_api.body import json_body
from opencomputer.server.services.sessions.credentials import NewCredential
from opencomputer.wire.model_credentials import (
    CreateCredential,
    CredentialPage,
    CredentialView,
    RotateCredential,
    SetDefaultCredential,
)

router = APIRouter(prefix="/credentials")


def deployer_of(caller: KeyCaller) -> Deployer:
    """Who changes something, as it is written down."""
    return Deployer("api_key", caller.key_id)


@router.post("", status_code=201)
async def create(
    caller: OrgKey, durable: Durable, body: Annotated[CreateCredential, Depends(json_body(CreateCredential))]
) -> CredentialView:
    wanted = NewCredential(body.provider, body.key.get_secret_value(), body.name, body.is_default or False)
    return _view(await durable.credentials.create(caller.org_id, wanted))


@router.get("")
async def list_credentials(caller: OrgKey, durable: Durable) -> CredentialPage:
    return CredentialPage(data=[_view(each) for each in await durable.credentials.list(caller.org_id)])


@router.put("/default")
async def set_default(
    caller: OrgKey,
    durable: Durable,
    body: Annotated[SetDefaultCredential, Depends(json_body(SetDefaultCredential))],
) -> CredentialView:
    return _view(await durable.credentials.set_default(caller.org_id, body.credential, body.provider))


@router.patch("/{credential_id}")
async def rotate(
    credential_id: str,
    caller: OrgKey,
    durable: Durable,
    body: Annotated[RotateCredential, Depends(json_body(RotateCredential))],
) -> CredentialView:
    """Sessions that run use the new key at once."""
    key = body.key.get_secret_value()
    return _view(await durable.credentials.rotate(caller.org_id, credential_id, key))


@router.delete("/{credential_id}", status_code=204)
async def delete(credential_id: str, caller: OrgKey, durable: Durable) -> Response:
    await durable.credentials.delete(caller.org_id, credential_id, deployer_of(caller))
    return Response(status_code=204)


def _view(credential: ModelCredential) -> CredentialView:
    return CredentialView(
        id=credential.id,
        provider=credential.provider,
        name=credential.name,
        last4=credential.last4,
        is_default=credential.is_default,
        created_at=credential.created_at,
    )
