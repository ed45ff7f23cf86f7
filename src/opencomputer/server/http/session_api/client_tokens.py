"""`POST /v3/sessions/:id/client-tokens`: tokens for programs that may not have the key."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from opencomputer.server.domain.sessions.access import token_request
from opencomputer.server.http.session_api.auth import Durable, OrgKey
from opencomputer.server.http.session_api.body import json_body
from opencomputer.wire.ids import SessionId
from opencomputer.wire.sessions import ClientTokenView, CreateClientToken

router = APIRouter(prefix="/sessions/{session_id}/client-tokens")

_Body = Annotated[CreateClientToken, Depends(json_body(CreateClientToken))]


@router.post("", status_code=201)
async def create(caller: OrgKey, services: Durable, session_id: str, body: _Body) -> ClientTokenView:
    wanted = token_request(body.scopes, body.ttl)
    session = await services.sessions.get(caller.org_id, SessionId(session_id))
    made = services.client_tokens.mint(caller.org_id, session.id, wanted)
    return ClientTokenView(
        token=made.secret, client_token=made.secret, scopes=list(made.scopes), expires_at=made.expires_at
    )
