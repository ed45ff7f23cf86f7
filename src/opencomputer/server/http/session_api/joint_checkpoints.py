"""`POST /v3/sessions/:id/rewind` and `…/fork`: going on from the end of an earlier turn."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from opencomputer.server.domain.sessions.access import TokenRequest
from opencomputer.server.domain.sessions.idempotency import request_hash
from opencomputer.server.http.description import repeated
from opencomputer.server.http.session_api import rendering
from opencomputer.server.http.session_api.auth import Durable, OrgKey
from opencomputer.server.http.session_api.body import json_body
from opencomputer.server.http.session_api.idempotency import IdempotencyKey
from opencomputer.server.services.sessions.joint_checkpoints import NewFork
from opencomputer.wire.ids import SessionId, TurnId
from opencomputer.wire.sessions import CreatedSessionView, DoneView, ForkSession, RewindSession

router = APIRouter(prefix="/sessions/{session_id}")

_Rewind = Annotated[RewindSession, Depends(json_body(RewindSession))]


@router.post("/rewind")
async def rewind(caller: OrgKey, services: Durable, session_id: str, body: _Rewind) -> DoneView:
    session = await services.checkpoints.rewind(caller.org_id, SessionId(session_id), TurnId(body.turn))
    return DoneView(session=rendering.brief(session))


async def _wanted(
    session_id: str, body: Annotated[ForkSession, Depends(json_body(ForkSession))], key: IdempotencyKey
) -> NewFork:
    turn_id = None if body.turn is None else TurnId(body.turn)
    return NewFork(turn_id, request_hash("fork", session_id, body.turn), key)


@router.post("/fork", status_code=201, responses=repeated(CreatedSessionView))
async def fork(
    caller: OrgKey,
    services: Durable,
    session_id: str,
    wanted: Annotated[NewFork, Depends(_wanted)],
    response: Response,
) -> CreatedSessionView:
    admitted = await services.checkpoints.fork(caller.org_id, SessionId(session_id), wanted)
    if admitted.replayed:
        response.status_code = 200
    made = admitted.session
    token = services.client_tokens.mint(caller.org_id, made.id, TokenRequest())
    return CreatedSessionView(session=rendering.session(made), client_token=token.secret, sources=[])
