"""`/v3/sessions`: creating durable sessions, looking at them, stopping them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sessions.access import token_request
from opencomputer.server.domain.sessions.event_documents import event_document
from opencomputer.server.domain.sessions.events import API
from opencomputer.server.domain.sessions.session import Session, Turn
from opencomputer.server.http.description import not_yet, repeated
from opencomputer.server.http.session_api import rendering
from opencomputer.server.http.session_api.auth import Durable, OrgKey
from opencomputer.server.http.session_api.body import Sent, sent_body
from opencomputer.server.http.session_api.idempotency import IdempotencyKey
from opencomputer.server.http.session_api.paging import Bounds, page, page_of
from opencomputer.server.http.session_api.session_requests import new_session, session_filter
from opencomputer.wire.ids import SessionId, TurnId
from opencomputer.wire.model import PlainModel
from opencomputer.wire.sessions import (
    CreatedSessionView,
    CreateSession,
    DoneView,
    ResultView,
    SessionsView,
    SessionView,
    TurnsView,
    TurnView,
    Word,
)

router = APIRouter(prefix="/sessions")

_BOUNDS = Bounds(usual=50, most=100)
_Body = Annotated[Sent[CreateSession], Depends(sent_body(CreateSession))]


class SessionQuery(PlainModel):
    """The query of a list of sessions; all as it was sent."""

    status: str | None = None
    agent: Word | None = None
    key: str | None = None
    after: str | None = None
    before: str | None = None
    limit: str | None = None
    cursor: str | None = None


@router.post("", status_code=201, responses=not_yet("sources") | repeated(CreatedSessionView))
async def create(
    caller: OrgKey, services: Durable, body: _Body, key: IdempotencyKey, response: Response
) -> CreatedSessionView:
    token = token_request(body.value.scopes, body.value.ttl)
    admitted = await services.sessions.create(caller.org_id, new_session(body, key, API))
    if admitted.replayed:
        response.status_code = 200
    session = admitted.session
    return CreatedSessionView(
        session=rendering.session(session),
        client_token=services.client_tokens.mint(caller.org_id, session.id, token).secret,
        sources=[],
    )


@router.get("")
async def list_sessions(
    caller: OrgKey, services: Durable, query: Annotated[SessionQuery, Query()]
) -> SessionsView:
    filters = query.model_dump(exclude={"limit", "cursor"})
    wanted = session_filter(filters)
    request = page_of(query.limit, query.cursor, _BOUNDS, filters)

    async def last(session_id: str) -> Session | None:
        return await services.sessions.find(caller.org_id, SessionId(session_id))

    async def rows(limit: int, before: Session | None) -> Sequence[Session]:
        return await services.sessions.list(caller.org_id, wanted, limit, before)

    found, next_cursor = await page(request, last, rows)
    return SessionsView(data=[rendering.session(each) for each in found], next_cursor=next_cursor)


@router.get("/{session_id}")
async def get(caller: OrgKey, services: Durable, session_id: str) -> SessionView:
    return rendering.session(await services.sessions.get(caller.org_id, SessionId(session_id)))


@router.post("/{session_id}/cancel")
async def cancel(caller: OrgKey, services: Durable, session_id: str) -> DoneView:
    session = await services.sessions.cancel(caller.org_id, SessionId(session_id))
    return DoneView(session=rendering.brief(session))


@router.post("/{session_id}/archive")
async def archive(caller: OrgKey, services: Durable, session_id: str) -> DoneView:
    session = await services.sessions.archive(caller.org_id, SessionId(session_id))
    return DoneView(session=rendering.brief(session))


@router.get("/{session_id}/result")
async def result(caller: OrgKey, services: Durable, session_id: str) -> ResultView:
    turn, event = await services.sessions.result(caller.org_id, SessionId(session_id))
    return ResultView(
        last_turn=None if turn is None else rendering.last_turn(turn),
        result=None if event is None else event_document(event),
    )


@router.get("/{session_id}/sources")
async def sources(caller: OrgKey, services: Durable, session_id: str) -> list[Any]:
    await services.sessions.get(caller.org_id, SessionId(session_id))
    return []


@router.get("/{session_id}/turns")
async def turns(
    caller: OrgKey,
    services: Durable,
    session_id: str,
    limit: str | None = None,
    cursor: str | None = None,
) -> TurnsView:
    session = await services.sessions.get(caller.org_id, SessionId(session_id))
    request = page_of(limit, cursor, _BOUNDS, {"session": session.id})

    async def last(turn_id: str) -> Turn | None:
        return await services.sessions.turn(session, TurnId(turn_id))

    async def rows(limit: int, before: Turn | None) -> Sequence[Turn]:
        return await services.sessions.turns(session, limit, before)

    found, next_cursor = await page(request, last, rows)
    return TurnsView(data=[rendering.turn(each) for each in found], next_cursor=next_cursor)


@router.get("/{session_id}/turns/{turn_id}")
async def turn(caller: OrgKey, services: Durable, session_id: str, turn_id: str) -> TurnView:
    session = await services.sessions.get(caller.org_id, SessionId(session_id))
    found = await services.sessions.turn(session, TurnId(turn_id))
    if found is None:
        raise NotFound("there is no such turn")
    return rendering.turn(found)
