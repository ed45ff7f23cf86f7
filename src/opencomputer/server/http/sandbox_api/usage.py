"""`/api/usage` and `…/usage`: what sandboxes used (sandbox-wire.md section 19)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from starlette.responses import Response

from opencomputer.server.domain.sandbox import Sandbox, shown
from opencomputer.server.domain.usage import Amounts, Described, Group, UsagePage, UsageQuestion
from opencomputer.server.domain.usage_series import UsagePoint, UsageSeries
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.description import Schema, query
from opencomputer.server.http.sandbox_api.usage_query import (
    LONGEST_REPORT_DAYS,
    LONGEST_SERIES_DAYS,
    SANDBOX,
    SORTS,
    cursor_to,
    series_window,
    usage_question,
)
from opencomputer.wire.ids import SandboxId
from opencomputer.wire.usage import (
    DEFAULT_USAGE_PAGE,
    MAX_USAGE_PAGE,
    SandboxUsageItem,
    SandboxUsageView,
    SeriesPoint,
    SeriesTotals,
    TagUsageItem,
    UntaggedUsage,
    UsageAmounts,
    UsageBySandbox,
    UsageByTag,
)

router = APIRouter()

_MB_OF_GIB = 1024
_KIB_OF_GIB = 1 << 20
_KIB_OF_MB = 1024
_FILTER: Schema = {
    "name": "filter",
    "in": "query",
    "description": "`filter[tag:KEY]`: one of these values, `,` between them; an empty one: without the tag",
    "style": "deepObject",
    "explode": True,
    "schema": {"type": "object", "additionalProperties": {"type": "string"}},
}


def _bounds(default: str, days: int) -> list[Schema]:
    return [
        query("from", f"a date or an RFC 3339 time, at most {days} days before `to`; {default}"),
        query("to", "a date or an RFC 3339 time; now"),
    ]


_REPORT = {
    "parameters": [
        query("groupBy", f"`{SANDBOX}`, or `tag:` and a key", required=True),
        *_bounds("30 days before", LONGEST_REPORT_DAYS),
        query("sort", "what comes first", enum=[*SORTS]),
        query(
            "limit",
            f"how many at most; {DEFAULT_USAGE_PAGE}",
            type="integer",
            minimum=1,
            maximum=MAX_USAGE_PAGE,
        ),
        query("cursor", "where another page ended"),
        _FILTER,
    ]
}
_SERIES = {"parameters": _bounds("an hour before", LONGEST_SERIES_DAYS)}


@router.get("/usage", openapi_extra=_REPORT)
async def usage(request: Request, caller: Key, services: ServicesOf) -> UsageBySandbox | UsageByTag:
    """What the organisation's sandboxes used, most first: each of them, or those of each value of a tag."""
    question = usage_question(request.query_params, caller.org_id, services.clock.now())
    page = await services.usage.reports.page(question)
    return _by_sandbox(question, page) if question.tag is None else _by_tag(question, question.tag, page)


@router.get(
    "/sandboxes/{sandbox_id}/usage",
    response_model=None,
    responses={200: {"model": SandboxUsageView}},
    openapi_extra=_SERIES,
)
async def usage_of_sandbox(sandbox_id: str, request: Request, caller: Key, services: ServicesOf) -> Response:
    """What one sandbox used, minute by minute. Neither wakes it nor counts as a use of it."""
    window = series_window(request.query_params, services.clock.now())
    sandbox, series = await services.usage.reports.series(caller.org_id, SandboxId(sandbox_id), window)
    # There may be tens of thousands of points: others have their turn meanwhile.
    body = await asyncio.to_thread(lambda: _series(sandbox, series).model_dump_json())
    return Response(body, media_type="application/json")


def _by_sandbox(question: UsageQuestion, page: UsagePage) -> UsageBySandbox:
    return UsageBySandbox(
        begin=_moment(question.window.begin),
        end=_moment(question.window.end),
        group_by=SANDBOX,
        total=UsageAmounts(**_amounts(page.total)),
        next_cursor=cursor_to(question, page.following),
        items=_sandbox_items(page),
    )


def _sandbox_items(page: UsagePage) -> list[SandboxUsageItem]:
    pairs = ((each, page.described.get(SandboxId(each.name))) for each in page.groups)
    return [_sandbox_item(group, described) for group, described in pairs if described is not None]


def _sandbox_item(group: Group, described: Described) -> SandboxUsageItem:
    return SandboxUsageItem(
        sandbox_id=group.name,
        alias=described.alias,
        status=shown(described.state),
        tags=dict(described.tags.values),
        tags_last_updated_at=described.tags.updated_at,
        **_amounts(group.amounts),
    )


def _by_tag(question: UsageQuestion, key: str, page: UsagePage) -> UsageByTag:
    return UsageByTag(
        begin=_moment(question.window.begin),
        end=_moment(question.window.end),
        group_by=f"tag:{key}",
        total=UsageAmounts(**_amounts(page.total)),
        next_cursor=cursor_to(question, page.following),
        items=[
            TagUsageItem(
                tag_key=key, tag_value=each.name, sandbox_count=each.sandboxes, **_amounts(each.amounts)
            )
            for each in page.groups
        ],
        untagged=UntaggedUsage(sandbox_count=page.untagged.sandboxes, **_amounts(page.untagged.amounts)),
    )


def _amounts(amounts: Amounts) -> dict[str, float]:
    return {
        "memory_gb_seconds": amounts.memory / _MB_OF_GIB,
        "disk_overage_gb_seconds": amounts.disk / _MB_OF_GIB,
    }


def _series(sandbox: Sandbox, series: UsageSeries) -> SandboxUsageView:
    total = series.total
    return SandboxUsageView(
        sandbox_id=sandbox.id,
        alias=sandbox.alias,
        begin=_moment(series.window.begin),
        end=_moment(series.window.end),
        totals=SeriesTotals(
            memory_allocated_gb_seconds=total.allocated / _MB_OF_GIB,
            memory_used_gb_seconds=total.used_kib / _KIB_OF_GIB,
            uptime_seconds=total.uptime,
            memory_allocated_peak_mb=total.allocated_peak_mb,
            memory_used_peak_mb=_mb(total.used_peak_kib),
        ),
        points=[_point(each) for each in series.points],
    )


def _point(point: UsagePoint) -> SeriesPoint:
    return SeriesPoint(
        ts=_moment(point.second),
        memory_allocated_gb_seconds=point.allocated / _MB_OF_GIB,
        memory_used_gb_seconds=point.used_kib / _KIB_OF_GIB,
        uptime_seconds=point.uptime,
        allocated_memory_mb=point.allocated_peak_mb,
        used_memory_mb_avg=_mb(point.used_average_kib),
        used_memory_mb_peak=_mb(point.used_peak_kib),
    )


def _mb(kib: int) -> int:
    """Rounded up: what is in use is more than nothing."""
    return -(-kib // _KIB_OF_MB)


def _moment(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)
