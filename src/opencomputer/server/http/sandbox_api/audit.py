"""`…/audit`: which connections a sandbox made and was refused, oldest first."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request
from starlette.responses import Response

from opencomputer.server.domain.egress import check_patterns
from opencomputer.server.domain.egress_events import Decision, EgressQuery, RecordedEvent
from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.description import query
from opencomputer.wire.audit import (
    DEFAULT_AUDIT_PAGE,
    JSON_LINES,
    MAX_AUDIT_PAGE,
    AuditEvent,
    AuditPage,
)
from opencomputer.wire.ids import OrgId, SandboxId

router = APIRouter(prefix="/sandboxes/{sandbox_id}/audit")

_MAX_POSITION = 2**63 - 1
_DECISIONS: dict[str, Decision] = {"allowed": "allowed", "denied": "denied"}
_QUERY = {
    "parameters": [
        query("after", "only events behind this position", type="integer", minimum=0),
        query("limit", "how many at most", type="integer", minimum=1, maximum=MAX_AUDIT_PAGE),
        query("decision", "only these", enum=[*_DECISIONS]),
        query("host", "a pattern of hosts"),
    ]
}


@router.get("", response_model=None, responses={200: {"model": AuditPage}}, openapi_extra=_QUERY)
async def audit(sandbox_id: str, caller: Key, services: ServicesOf, request: Request) -> AuditPage | Response:
    query = _query(caller.org_id, SandboxId(sandbox_id), request.query_params)
    events = [_view(each) for each in await services.audit.find(query)]
    if JSON_LINES in request.headers.get("accept", ""):
        lines = "".join(f"{event.model_dump_json()}\n" for event in events)
        return Response(lines, media_type=JSON_LINES)
    return AuditPage(events=events, next=events[-1].position if events else query.after)


def _query(org_id: OrgId, sandbox_id: SandboxId, given: Mapping[str, str]) -> EgressQuery:
    return EgressQuery(
        org_id=org_id,
        sandbox_id=sandbox_id,
        after=_whole(given.get("after", "0"), "after", 0, _MAX_POSITION),
        limit=_whole(given.get("limit", str(DEFAULT_AUDIT_PAGE)), "limit", 1, MAX_AUDIT_PAGE),
        decision=_decision(given.get("decision", "")),
        host=_host(given.get("host", "")),
    )


def _whole(text: str, field: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 19 and least <= int(text) <= most):
        raise InvalidInput(f"{field}: must be a whole number from {least} to {most}", field=field)
    return int(text)


def _decision(text: str) -> Decision | None:
    if text and text not in _DECISIONS:
        raise InvalidInput("decision: must be allowed or denied", field="decision")
    return _DECISIONS.get(text)


def _host(text: str) -> str | None:
    if text in {"", "*"}:
        return None
    return check_patterns([text], "host")[0]


def _view(recorded: RecordedEvent) -> AuditEvent:
    event = recorded.event
    return AuditEvent(
        position=recorded.position,
        at=event.at,
        protocol=event.protocol,
        host=event.host,
        port=event.port,
        decision=event.decision,
        reason=event.reason,
        address=event.address,
        intercepted=event.intercepted,
        secrets=list(event.secrets),
        withheld=list(event.withheld),
        bytes_out=event.bytes_out,
        bytes_in=event.bytes_in,
        lost=event.lost,
    )
