"""`…/logs`: what programs of a sandbox write, as server-sent events: what there is, then what comes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.log_lines import LogQuery, LogSource
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.sandbox_api.log_stream import LogStream, Wanted
from opencomputer.wire.ids import SandboxId
from opencomputer.wire.logs import DEFAULT_LOG_LIMIT, MAX_LOG_LIMIT

router = APIRouter(prefix="/sandboxes/{sandbox_id}/logs")

_DURATION = re.compile(r"([0-9]{1,6})(ms|s|m|h|d)", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_LONGEST_TEXT = 1024
_SWITCH = {"": True, "true": True, "1": True, "false": False, "0": False}


@router.get("", response_class=Response, responses={200: {"content": {"text/event-stream": {}}}})
async def logs(sandbox_id: str, caller: Key, services: ServicesOf, request: Request) -> Response:
    """Query: `tail`, `since`, `until`, `q`, `source` (several between commas), `limit`."""
    given = request.query_params
    tail = _SWITCH.get(given.get("tail", "").lower())
    if tail is None:
        raise InvalidInput("tail: must be true or false", field="tail")
    query = _query(given, services.clock.now(), _last_seen(request))
    until_revoked = partial(services.access.until_revoked, caller)
    wanted = Wanted(caller.org_id, SandboxId(sandbox_id), query, tail, until_revoked)
    await services.logs.check(wanted.org_id, wanted.sandbox_id)
    return LogStream(services.logs, wanted)


def _query(given: Mapping[str, str], now: datetime, after: int) -> LogQuery:
    text = given.get("q", "")
    if len(text) > _LONGEST_TEXT:
        raise InvalidInput(f"q: must have at most {_LONGEST_TEXT} characters", field="q")
    return LogQuery(
        since=_moment(given.get("since", ""), "since", now),
        until=_moment(given.get("until", ""), "until", now),
        text=text,
        sources=_sources(given.get("source", "")),
        limit=_limit(given.get("limit", "")),
        after=after,
    )


def _moment(text: str, field: str, now: datetime) -> datetime | None:
    """A point in time, or how long ago."""
    if not text:
        return None
    if ago := _DURATION.fullmatch(text):
        return now - timedelta(seconds=int(ago[1]) * _UNITS[ago[2]])
    try:
        # A plus sign that nobody encoded arrives as a space.
        moment = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
    except ValueError:
        raise InvalidInput(f"{field}: must be RFC 3339, or a time like 30m", field=field) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _sources(text: str) -> frozenset[LogSource]:
    if not text:
        return frozenset(LogSource)
    try:
        return frozenset(LogSource(word.strip()) for word in text.split(","))
    except ValueError:
        allowed = ", ".join(LogSource)
        raise InvalidInput(f"source: must be some of {allowed}", field="source") from None


def _limit(text: str) -> int:
    if not text or text == "0":
        return DEFAULT_LOG_LIMIT
    if not _NUMBER.fullmatch(text) or int(text) > MAX_LOG_LIMIT:
        raise InvalidInput(f"limit: must be a whole number up to {MAX_LOG_LIMIT}", field="limit")
    return int(text)


def _last_seen(request: Request) -> int:
    """Where a browser was. It reconnects by itself, so that what is no number is better passed over."""
    value = request.headers.get("last-event-id", "").strip()
    return int(value) if _NUMBER.fullmatch(value) else 0
