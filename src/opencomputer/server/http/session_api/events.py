"""`/v3/sessions/:id/events` and `GET …/messages`: the log, in pages, as a stream, or one event of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from opencomputer.server.domain.access import KeyCaller
from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.sessions.access import SessionCaller
from opencomputer.server.domain.sessions.events import EventFilter, Level
from opencomputer.server.http.auth import services_of
from opencomputer.server.http.description import event_stream, query
from opencomputer.server.http.pieces import for_ever
from opencomputer.server.http.session_api.auth import Durable, Reader, StreamReader, wants_stream
from opencomputer.server.http.session_api.event_stream import EventStream, Following
from opencomputer.server.http.session_api.paging import Bounds, limit_of
from opencomputer.server.services.sessions.log import SessionLog
from opencomputer.server.services.sessions.tail import line_of
from opencomputer.wire.ids import EventId, SessionId, TurnId

router = APIRouter(prefix="/sessions/{session_id}")

_BOUNDS = Bounds(500, 1000)
_POSITION = re.compile(r"[0-9]{1,18}", re.ASCII)
_LONGEST_WORD = 256
_MESSAGES = EventFilter(Level.USER, "*.message")
_JSON = "application/json"
_PAGING = (
    query("after", "only events with a larger `seq`", pattern="^[0-9]{1,18}$"),
    query("limit", "how many at most", type="integer", minimum=1),
    query("cursor", "`next_cursor` of the page before"),
)
_PAGE = {"parameters": [*_PAGING]}
_QUERY = {
    "parameters": [
        *_PAGING,
        query("level", "for whom they are", enum=[each.value for each in Level]),
        query("type", "exactly, or `prefix.*`, or `*.suffix`"),
        query("turn_id", "only events of this turn"),
        query("stream", "answer with a stream that goes on", enum=["sse"]),
        query("token", "a client token, for streams only"),
    ]
}


@router.get(
    "/events",
    openapi_extra=_QUERY,
    responses=event_stream("A page, or a stream that goes on."),
)
async def list_events(request: Request, caller: StreamReader, services: Durable, session_id: str) -> Response:
    session = SessionId(session_id)
    await services.log.check(caller.org_id, session)
    query = request.query_params
    wanted, after = _wanted(query), _position(query, "after")
    if not wants_stream(request):
        return await _page(services.log, session, wanted, query)
    after = max(after, _last_seen(request))
    until_revoked, seconds = _until_revoked(request, caller), _seconds_left(request, caller)
    return EventStream(services.log, Following(session, wanted, after, until_revoked, seconds))


@router.get("/messages", openapi_extra=_PAGE)
async def list_messages(request: Request, caller: Reader, services: Durable, session_id: str) -> Response:
    session = SessionId(session_id)
    await services.log.check(caller.org_id, session)
    return await _page(services.log, session, _MESSAGES, request.query_params)


@router.get("/events/{event_id}")
async def get_event(caller: Reader, services: Durable, session_id: str, event_id: str) -> Response:
    session = SessionId(session_id)
    await services.log.check(caller.org_id, session)
    event = await services.log.event(session, EventId(event_id))
    return Response(line_of(event).json, media_type=_JSON)


@router.get("/events/{event_id}/content")
async def get_content(caller: Reader, services: Durable, session_id: str, event_id: str) -> Response:
    """The bytes that did not fit into the event. Whatever they are, no browser takes them for a page."""
    session = SessionId(session_id)
    await services.log.check(caller.org_id, session)
    content = await services.log.content(session, EventId(event_id))
    headers = {"Content-Type": content.media_type, "X-Content-Type-Options": "nosniff"}
    return Response(content.data, headers=headers)


async def _page(
    log: SessionLog, session: SessionId, wanted: EventFilter, query: Mapping[str, str]
) -> Response:
    after = max(_position(query, "after"), _position(query, "cursor"))
    page = await log.page(session, wanted, after=after, limit=limit_of(query.get("limit"), _BOUNDS))
    following = f'"{page.lines[-1].event.seq}"' if page.more else "null"
    listed = b",".join(line.json for line in page.lines)
    return Response(b'{"data":[%b],"next_cursor":%b}' % (listed, following.encode()), media_type=_JSON)


def _wanted(query: Mapping[str, str]) -> EventFilter:
    wanted = EventFilter(type=_word(query, "type"))
    turn_id, level = _word(query, "turn_id"), query.get("level")
    if level is not None:
        if level not in tuple(Level):
            raise InvalidInput(f"level must be one of {', '.join(Level)}", field="level")
        wanted = replace(wanted, level=Level(level))
    return wanted if turn_id is None else replace(wanted, turn_id=TurnId(turn_id))


def _word(query: Mapping[str, str], name: str) -> str | None:
    value = query.get(name)
    if value is not None and (not 1 <= len(value) <= _LONGEST_WORD or not value.isprintable()):
        raise InvalidInput(f"{name} must have 1 to {_LONGEST_WORD} printable characters", field=name)
    return value


def _position(query: Mapping[str, str], name: str) -> int:
    value = query.get(name, "0")
    if not _POSITION.fullmatch(value):
        raise InvalidInput(f"{name} must be an integer from 0 on", field=name)
    return int(value)


def _last_seen(request: Request) -> int:
    """Where a browser was. It reconnects by itself, so that what is no position is better passed over."""
    value = request.headers.get("last-event-id", "").strip()
    return int(value) if _POSITION.fullmatch(value) else 0


def _until_revoked(request: Request, caller: SessionCaller) -> Callable[[], Coroutine[Any, Any, None]]:
    """A client token holds until it expires, whatever becomes of the key that it was made with."""
    if isinstance(caller, KeyCaller):
        return partial(services_of(request).access.until_revoked, caller)
    return for_ever


def _seconds_left(request: Request, caller: SessionCaller) -> float | None:
    """How long the caller's token holds; None for keys."""
    if isinstance(caller, KeyCaller):
        return None
    return max(0.0, (caller.expires_at - services_of(request).clock.now()).total_seconds())
