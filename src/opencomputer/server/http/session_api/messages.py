"""`POST /v3/sessions/:id/messages`: saying something to a session."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from opencomputer.server.domain.access import KeyCaller
from opencomputer.server.domain.sessions.events import API, CLIENT, NewEvent
from opencomputer.server.http.description import repeated
from opencomputer.server.http.session_api import rendering
from opencomputer.server.http.session_api.auth import Durable, Steerer
from opencomputer.server.http.session_api.body import json_body
from opencomputer.server.http.session_api.idempotency import IdempotencyKey
from opencomputer.server.http.session_api.session_requests import posted_message
from opencomputer.wire.ids import SessionId
from opencomputer.wire.sessions import AcceptedView, BriefEventView, PostMessage

router = APIRouter(prefix="/sessions/{session_id}/messages")

_Body = Annotated[PostMessage, Depends(json_body(PostMessage))]


def _message(caller: Steerer, body: _Body, key: IdempotencyKey) -> NewEvent:
    return posted_message(body, key, API if isinstance(caller, KeyCaller) else CLIENT)


_Message = Annotated[NewEvent, Depends(_message)]


@router.post("", status_code=202, responses=repeated(AcceptedView))
async def post(
    caller: Steerer, services: Durable, session_id: str, message: _Message, response: Response
) -> AcceptedView:
    accepted = await services.messages.post(caller.org_id, SessionId(session_id), message)
    if accepted.replayed:
        response.status_code = 200
    event = accepted.event
    return AcceptedView(
        event=BriefEventView(id=event.id, seq=event.seq), session=rendering.brief(accepted.session)
    )
