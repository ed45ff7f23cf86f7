"""`Usage` and `Tags`: what is asked, and what becomes of the answers."""

from __future__ import annotations

import pytest

from opencomputer import (
    SandboxUsagePoint,
    SandboxUsageResponse,
    SandboxUsageTotals,
    TagKeyInfo,
    Tags,
    Usage,
    UsageBySandboxResponse,
    UsageByTagResponse,
    UsageSandboxItem,
    UsageTagItem,
    UsageTotals,
    UsageUntaggedBucket,
)
from tests.support.fake_node import FakeNode
from tests.unit.sdk.exchanges import Asked, Exchange, check, check_unsupported

pytestmark = pytest.mark.anyio

_PERIOD = {"from": "2026-04-01T00:00:00Z", "to": "2026-05-01T00:00:00Z"}
_TOTAL = {"memoryGbSeconds": 12.5, "diskOverageGbSeconds": 3}
_NO_TAGS: dict[str, str] = {}

BY_SANDBOX = Exchange[Usage](
    "by sandbox",
    lambda usage: usage.by_sandbox(
        from_="2026-04-01",
        to="2026-05-01",
        filter={"tag:team": "a,b", "tag:env": ""},
        sort="-diskOverageGbSeconds",
        limit=2,
        cursor="c1",
    ),
    Asked(
        "GET",
        "/usage",
        query={
            "groupBy": "sandbox",
            "from": "2026-04-01",
            "to": "2026-05-01",
            "sort": "-diskOverageGbSeconds",
            "limit": "2",
            "cursor": "c1",
            "filter[tag:team]": "a,b",
            "filter[tag:env]": "",
        },
    ),
    {
        **_PERIOD,
        "groupBy": "sandbox",
        "total": _TOTAL,
        "items": [
            {
                "sandboxId": "sb-1",
                "alias": "web",
                "status": "running",
                "tags": {"team": "a"},
                "tagsLastUpdatedAt": "2026-04-02T00:00:00Z",
                **_TOTAL,
            },
            {"sandboxId": "sb-2", "tags": _NO_TAGS, "tagsLastUpdatedAt": None, **_TOTAL},
        ],
        "nextCursor": "c2",
    },
    UsageBySandboxResponse(
        from_=_PERIOD["from"],
        to=_PERIOD["to"],
        total=UsageTotals(12.5, 3.0),
        items=[
            UsageSandboxItem("sb-1", 12.5, 3.0, {"team": "a"}, "2026-04-02T00:00:00Z", "web", "running"),
            UsageSandboxItem("sb-2", 12.5, 3.0),
        ],
        next_cursor="c2",
    ),
)

BY_TAG = Exchange[Usage](
    "by tag",
    lambda usage: usage.by_tag("team"),
    Asked("GET", "/usage", query={"groupBy": "tag:team"}),
    {
        **_PERIOD,
        "groupBy": "tag:team",
        "total": _TOTAL,
        "untagged": {**_TOTAL, "sandboxCount": 4},
        "items": [{"tagKey": "team", "tagValue": "a", **_TOTAL, "sandboxCount": 7}],
        "nextCursor": None,
    },
    UsageByTagResponse(
        from_=_PERIOD["from"],
        to=_PERIOD["to"],
        group_by="tag:team",
        total=UsageTotals(12.5, 3.0),
        untagged=UsageUntaggedBucket(12.5, 3.0, 4),
        items=[UsageTagItem("team", "a", 12.5, 3.0, 7)],
        next_cursor=None,
    ),
)

FOR_SANDBOX = Exchange[Usage](
    "for sandbox",
    lambda usage: usage.for_sandbox("sb-1", from_="2026-04-01"),
    Asked("GET", "/sandboxes/sb-1/usage", query={"from": "2026-04-01"}),
    {
        "sandboxId": "sb-1",
        "alias": "web",
        **_PERIOD,
        "totals": {
            "memoryAllocatedGbSeconds": 240,
            "memoryUsedGbSeconds": 90.5,
            "uptimeSeconds": 60,
            "memoryAllocatedPeakMb": 4096,
            "memoryUsedPeakMb": 1800,
        },
        "points": [
            {
                "ts": "2026-04-01T00:00:00Z",
                "memoryAllocatedGbSeconds": 240,
                "memoryUsedGbSeconds": 90.5,
                "uptimeSeconds": 60,
                "allocatedMemoryMb": 4096,
                "usedMemoryMbAvg": 1540,
                "usedMemoryMbPeak": 1800,
            }
        ],
    },
    SandboxUsageResponse(
        sandbox_id="sb-1",
        from_=_PERIOD["from"],
        to=_PERIOD["to"],
        totals=SandboxUsageTotals(240.0, 90.5, 60, 4096, 1800),
        points=[SandboxUsagePoint("2026-04-01T00:00:00Z", 240.0, 90.5, 60, 4096, 1540, 1800)],
        alias="web",
    ),
)

_TAGS = {"tags": {"team": "a"}, "tagsLastUpdatedAt": "2026-04-02T00:00:00Z"}
OF_TAGS = (
    Exchange[Tags](
        "keys",
        lambda tags: tags.list_keys(),
        Asked("GET", "/tags"),
        {"keys": [{"key": "team", "sandboxCount": 3, "valueCount": 2}]},
        [TagKeyInfo("team", 3, 2)],
    ),
    Exchange[Tags](
        "get",
        lambda tags: tags.get("sb-1"),
        Asked("GET", "/sandboxes/sb-1/tags"),
        {"tags": _NO_TAGS, "tagsLastUpdatedAt": None},
        (_NO_TAGS, None),
    ),
    Exchange[Tags](
        "set sends the bare map",
        lambda tags: tags.set("sb-1", {"team": "a"}),
        Asked("PUT", "/sandboxes/sb-1/tags", {"team": "a"}),
        _TAGS,
        (_TAGS["tags"], _TAGS["tagsLastUpdatedAt"]),
    ),
    Exchange[Tags](
        "an empty map clears",
        lambda tags: tags.set("sb-1", {}),
        Asked("PUT", "/sandboxes/sb-1/tags", {}),
        {"tags": _NO_TAGS},
        (_NO_TAGS, None),
    ),
)


@pytest.mark.parametrize("exchange", [BY_SANDBOX, BY_TAG, FOR_SANDBOX], ids=lambda each: each.id)
async def test_usage(node: FakeNode, exchange: Exchange[Usage]) -> None:
    async with Usage(node.api_key, node.url) as usage:
        await check(node, usage, exchange)
        await check_unsupported(node, usage, exchange)


@pytest.mark.parametrize("exchange", OF_TAGS, ids=lambda each: each.id)
async def test_tags(node: FakeNode, exchange: Exchange[Tags]) -> None:
    async with Tags(node.api_key, node.url) as tags:
        await check(node, tags, exchange)
        await check_unsupported(node, tags, exchange)
