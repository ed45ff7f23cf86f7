"""What sandboxes used: `Usage`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.answers import number, whole
from opencomputer.sdk.api_client import ApiClient
from opencomputer.sdk.control_plane import get
from opencomputer.sdk.sandbox_link import path_below_sandboxes
from opencomputer.sdk.usage_records import (
    SandboxUsagePoint,
    SandboxUsageResponse,
    SandboxUsageTotals,
    UsageBySandboxResponse,
    UsageByTagResponse,
    UsageSandboxItem,
    UsageTagItem,
    UsageTotals,
    UsageUntaggedBucket,
)

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject


class Usage(ApiClient):
    """Memory and disk that sandboxes used, in GiB-seconds.

    Periods are dates (`2026-04-01`) or RFC 3339 times. A `filter` such as `{"tag:team": "a,b"}` keeps what
    has one of these values, and of several tags all; an empty value keeps what does not have the tag. `sort`
    is "-memoryGbSeconds" or "-diskOverageGbSeconds". A page has 50 items unless `limit` (at most 500) says
    otherwise; the `next_cursor` of one is the `cursor` of the next.
    """

    async def by_sandbox(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        filter: Mapping[str, str] | None = None,
        sort: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> UsageBySandboxResponse:
        """The usage of each sandbox, by default of the last 30 days; 90 days are the longest period."""
        query = _query("sandbox", from_, to, sort, cursor) | _limit(limit) | _filters(filter)
        answer = await self._object(get("/usage", query))
        return UsageBySandboxResponse(
            from_=answers.text(answer, "from"),
            to=answers.text(answer, "to"),
            total=_totals(answer),
            items=[_sandbox_item(each) for each in answers.json_objects(answer.get("items"))],
            next_cursor=answers.text(answer, "nextCursor") or None,
        )

    async def by_tag(
        self,
        tag_key: str,
        *,
        from_: str | None = None,
        to: str | None = None,
        filter: Mapping[str, str] | None = None,
        sort: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> UsageByTagResponse:
        """The usage for each value of a tag, and that of sandboxes without it; otherwise as `by_sandbox`."""
        query = _query(f"tag:{tag_key}", from_, to, sort, cursor) | _limit(limit) | _filters(filter)
        answer = await self._object(get("/usage", query))
        untagged = answers.json_object(answer.get("untagged") or {})
        return UsageByTagResponse(
            from_=answers.text(answer, "from"),
            to=answers.text(answer, "to"),
            group_by=answers.text(answer, "groupBy"),
            total=_totals(answer),
            untagged=UsageUntaggedBucket(
                memory_gb_seconds=number(untagged, "memoryGbSeconds"),
                disk_overage_gb_seconds=number(untagged, "diskOverageGbSeconds"),
                sandbox_count=whole(untagged, "sandboxCount") or 0,
            ),
            items=[_tag_item(each) for each in answers.json_objects(answer.get("items"))],
            next_cursor=answers.text(answer, "nextCursor") or None,
        )

    async def for_sandbox(
        self, sandbox_id: str, *, from_: str | None = None, to: str | None = None
    ) -> SandboxUsageResponse:
        """One sandbox minute by minute, by default the last hour; 30 days are the longest period."""
        path = path_below_sandboxes(sandbox_id, "usage")
        answer = await self._object(get(path, _query(None, from_, to)))
        totals = answers.json_object(answer.get("totals") or {})
        return SandboxUsageResponse(
            sandbox_id=answers.required_text(answer, "sandboxId"),
            from_=answers.text(answer, "from"),
            to=answers.text(answer, "to"),
            totals=SandboxUsageTotals(
                memory_allocated_gb_seconds=number(totals, "memoryAllocatedGbSeconds"),
                memory_used_gb_seconds=number(totals, "memoryUsedGbSeconds"),
                uptime_seconds=whole(totals, "uptimeSeconds") or 0,
                memory_allocated_peak_mb=whole(totals, "memoryAllocatedPeakMb") or 0,
                memory_used_peak_mb=whole(totals, "memoryUsedPeakMb") or 0,
            ),
            points=[_point(each) for each in answers.json_objects(answer.get("points"))],
            alias=answers.text(answer, "alias") or None,
        )


def _query(
    group_by: str | None,
    from_: str | None,
    to: str | None,
    sort: str | None = None,
    cursor: str | None = None,
) -> dict[str, str]:
    given = {"groupBy": group_by, "from": from_, "to": to, "sort": sort, "cursor": cursor}
    return {name: value for name, value in given.items() if value is not None}


def _limit(limit: int | None) -> dict[str, str]:
    return {} if limit is None else {"limit": str(limit)}


def _filters(filters: Mapping[str, str] | None) -> dict[str, str]:
    return {f"filter[{name}]": value for name, value in (filters or {}).items()}


def _totals(answer: JsonObject) -> UsageTotals:
    total = answers.json_object(answer.get("total") or {})
    return UsageTotals(number(total, "memoryGbSeconds"), number(total, "diskOverageGbSeconds"))


def _sandbox_item(item: JsonObject) -> UsageSandboxItem:
    return UsageSandboxItem(
        sandbox_id=answers.required_text(item, "sandboxId"),
        memory_gb_seconds=number(item, "memoryGbSeconds"),
        disk_overage_gb_seconds=number(item, "diskOverageGbSeconds"),
        tags=answers.text_map(item, "tags"),
        tags_last_updated_at=answers.text(item, "tagsLastUpdatedAt") or None,
        alias=answers.text(item, "alias") or None,
        status=answers.text(item, "status") or None,
    )


def _tag_item(item: JsonObject) -> UsageTagItem:
    return UsageTagItem(
        tag_key=answers.text(item, "tagKey"),
        tag_value=answers.text(item, "tagValue"),
        memory_gb_seconds=number(item, "memoryGbSeconds"),
        disk_overage_gb_seconds=number(item, "diskOverageGbSeconds"),
        sandbox_count=whole(item, "sandboxCount") or 0,
    )


def _point(item: JsonObject) -> SandboxUsagePoint:
    return SandboxUsagePoint(
        ts=answers.required_text(item, "ts"),
        memory_allocated_gb_seconds=number(item, "memoryAllocatedGbSeconds"),
        memory_used_gb_seconds=number(item, "memoryUsedGbSeconds"),
        uptime_seconds=whole(item, "uptimeSeconds") or 0,
        allocated_memory_mb=whole(item, "allocatedMemoryMb") or 0,
        used_memory_mb_avg=whole(item, "usedMemoryMbAvg") or 0,
        used_memory_mb_peak=whole(item, "usedMemoryMbPeak") or 0,
    )
