"""Usage over HTTP: by sandbox, by tag, minute by minute; filtered, in pages, and of one's own only."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest
import sqlalchemy as sa

from opencomputer.sdk.usage import Usage
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.tables import sandboxes
from opencomputer.server.stores.sql.usage_tables import usage_intervals, usage_samples
from tests.support.node import Api, NodeFolder

pytestmark = pytest.mark.anyio

# Long before anything that the node itself counts: 2026-01-01T00:00:00Z.
BEGIN = 1_767_225_600
DAY = {"from": "2026-01-01", "to": "2026-01-02"}
HOUR = {"from": "2026-01-01T00:00:30Z", "to": "2026-01-01T01:00:00Z"}


@pytest.fixture(scope="module")
async def three(folder: NodeFolder, api: Api) -> AsyncGenerator[list[str]]:
    """Sandboxes that were there on that day: with 60, 120 and 120 s of 4 GB; the last with a larger disk."""
    made = [(await api.create(alias="web" if number == 0 else None))["sandboxID"] for number in range(3)]
    await api.put(f"/sandboxes/{made[0]}/tags", json={"team": "a", "job": "7"})
    await api.put(f"/sandboxes/{made[1]}/tags", json={"team": "b"})
    await api.delete(f"/sandboxes/{made[1]}")
    database = Database.sqlite(folder.data / "opencomputer.db")
    await database.open()
    row = await database.first(sa.select(sandboxes.c.org_id).where(sandboxes.c.id == made[0]))
    assert row is not None
    past = [
        (made[0], "memory", 4096, 0, 60),
        (made[1], "memory", 4096, 90, 210),
        (made[2], "memory", 4096, 0, 120),
        (made[2], "disk", 1024, 0, 3600),
    ]
    for sandbox, meter, megabytes, begin, end in past:
        values = {"sandbox_id": sandbox, "meter": meter, "megabytes": megabytes}
        span = {"begin_second": BEGIN + begin, "end_second": BEGIN + end}
        await database.run(usage_intervals.insert().values(org_id=row.org_id, **values, **span))
    sample = {"sandbox_id": made[1], "second": BEGIN + 100, "kib": 512 * 1024}
    await database.run(usage_samples.insert().values(**sample))
    await database.close()
    yield made
    for each in made:
        await api.delete(f"/sandboxes/{each}")


async def asked(api: Api, path: str = "/usage", **params: str) -> dict[str, Any]:
    answer = await api.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def amounts(item: Mapping[str, Any]) -> tuple[float, float]:
    return item["memoryGbSeconds"], item["diskOverageGbSeconds"]


async def test_by_sandbox_most_memory_first(api: Api, three: list[str]) -> None:
    answer = await asked(api, groupBy="sandbox", **DAY)
    assert {**answer, "items": None} == {
        "from": "2026-01-01T00:00:00Z",
        "to": "2026-01-02T00:00:00Z",
        "groupBy": "sandbox",
        "total": {"memoryGbSeconds": 1200.0, "diskOverageGbSeconds": 3600.0},
        "nextCursor": None,
        "items": None,
    }
    first, second = sorted(answer["items"][:2], key=lambda item: three.index(item["sandboxId"]))
    assert (first["sandboxId"], first["status"], amounts(first)) == (three[1], "stopped", (480.0, 0.0))
    assert (second["sandboxId"], second["status"], amounts(second)) == (three[2], "running", (480.0, 3600.0))
    assert (second["tags"], second["tagsLastUpdatedAt"], "alias" in second) == ({}, None, False)
    last = answer["items"][2]
    assert (last["sandboxId"], last["alias"], amounts(last)) == (three[0], "web", (240.0, 0.0))
    assert last["tags"] == {"job": "7", "team": "a"}
    assert last["tagsLastUpdatedAt"] is not None


async def test_or_most_disk_first(api: Api, three: list[str]) -> None:
    answer = await asked(api, groupBy="sandbox", sort="-diskOverageGbSeconds", **DAY)
    assert answer["items"][0]["sandboxId"] == three[2]


async def test_a_window_cuts_what_reaches_out_of_it(api: Api, three: list[str]) -> None:
    window = {"from": "2026-01-01T01:00:10+01:00", "to": "2026-01-01T00:00:20.9Z"}
    answer = await asked(api, groupBy="sandbox", **window)
    found = {item["sandboxId"]: amounts(item) for item in answer["items"]}
    assert found == {three[0]: (40.0, 0.0), three[2]: (40.0, 10.0)}
    assert answer["from"] == "2026-01-01T00:00:10Z"


async def test_by_tag_with_the_untagged_beside(api: Api, three: list[str]) -> None:
    del three
    answer = await asked(api, groupBy="tag:team", **DAY)
    assert answer["groupBy"] == "tag:team"
    assert [(item["tagKey"], item["tagValue"], item["sandboxCount"]) for item in answer["items"]] == [
        ("team", "b", 1),
        ("team", "a", 1),
    ]
    assert amounts(answer["items"][0]) == (480.0, 0.0)
    assert answer["untagged"] == {
        "memoryGbSeconds": 480.0,
        "diskOverageGbSeconds": 3600.0,
        "sandboxCount": 1,
    }
    assert amounts(answer["total"]) == (1200.0, 3600.0)


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ({"filter[tag:team]": "a"}, [0]),
        ({"filter[tag:team]": "a,b"}, [0, 1]),
        ({"filter[tag:team]": "a,b", "filter[tag:job]": "7"}, [0]),
        ({"filter[tag:team]": "a,b", "filter[tag:job]": ""}, [1]),
        ({"filter[tag:team]": ""}, [2]),
        ({"filter[tag:team]": "no such"}, []),
    ],
    ids=str,
)
async def test_filters_keep_what_has_all_of_the_tags(
    api: Api, three: list[str], filters: dict[str, str], kept: list[int]
) -> None:
    answer = await asked(api, groupBy="sandbox", **DAY, **filters)
    assert {item["sandboxId"] for item in answer["items"]} == {three[each] for each in kept}
    assert answer["total"]["memoryGbSeconds"] == sum(amounts(item)[0] for item in answer["items"])


async def test_pages_have_everything_once_and_totals_of_all(api: Api, three: list[str]) -> None:
    found: list[str] = []
    cursor: dict[str, str] = {}
    while len(found) < 5:
        # What comes with a cursor need not say of which window it is.
        page = await asked(api, groupBy="sandbox", limit="1", **(cursor or DAY))
        assert amounts(page["total"]) == (1200.0, 3600.0)
        found += [item["sandboxId"] for item in page["items"]]
        if page["nextCursor"] is None:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert sorted(found) == sorted(three)
    assert found[-1] == three[0]


async def test_minutes_are_aligned_and_come_to_the_totals(api: Api, three: list[str]) -> None:
    answer = await asked(api, f"/sandboxes/{three[1]}/usage", **HOUR)
    points = answer["points"]
    assert (answer["sandboxId"], "alias" in answer) == (three[1], False)
    assert (len(points), points[0]["ts"], points[-1]["ts"]) == (
        60,
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:59:00Z",
    )
    assert points[1] == {
        "ts": "2026-01-01T00:01:00Z",
        "memoryAllocatedGbSeconds": 120.0,
        "memoryUsedGbSeconds": 15.0,
        "uptimeSeconds": 30,
        "allocatedMemoryMb": 4096,
        "usedMemoryMbAvg": 512,
        "usedMemoryMbPeak": 512,
    }
    assert answer["totals"] == {
        "memoryAllocatedGbSeconds": 480.0,
        "memoryUsedGbSeconds": 60.0,
        "uptimeSeconds": 120,
        "memoryAllocatedPeakMb": 4096,
        "memoryUsedPeakMb": 512,
    }
    for each in ("memoryAllocatedGbSeconds", "memoryUsedGbSeconds", "uptimeSeconds"):
        assert math.fsum(point[each] for point in points) == answer["totals"][each]
    assert {point["uptimeSeconds"] for point in points[4:]} == {0}
    assert (await asked(api, f"/sandboxes/{three[0]}/usage", **HOUR))["alias"] == "web"


async def test_what_runs_counts_until_now_and_the_sdk_reads_it(api: Api) -> None:
    fresh = (await api.create(diskMB=20480 + 1024))["sandboxID"]

    async with asyncio.timeout(10):
        while (await asked(api, f"/sandboxes/{fresh}/usage"))["totals"]["uptimeSeconds"] == 0:  # noqa: ASYNC110 - only the clock changes it
            await asyncio.sleep(0.1)
    await api.delete(f"/sandboxes/{fresh}")
    async with Usage(api.key, api.url) as usage:
        series = await usage.for_sandbox(fresh)
        report = await usage.by_sandbox()
        tags = await usage.by_tag("no-such-tag", filter={"tag:team": ""})
    assert len(series.points) in (60, 61)
    assert series.totals.memory_allocated_gb_seconds == 4 * series.totals.uptime_seconds > 0
    assert sum(point.uptime_seconds for point in series.points) == series.totals.uptime_seconds
    (mine,) = [item for item in report.items if item.sandbox_id == fresh]
    assert mine.memory_gb_seconds == series.totals.memory_allocated_gb_seconds
    assert mine.disk_overage_gb_seconds == series.totals.uptime_seconds
    assert tags.untagged.sandbox_count >= 1


FAULTS: list[tuple[dict[str, str] | list[tuple[str, str]], str]] = [
    ({}, "groupBy"),
    ({"groupBy": "team"}, "groupBy"),
    ({"groupBy": "tag:"}, "groupBy"),
    ({"groupBy": "sandbox", "sort": "memory"}, "sort"),
    ({"groupBy": "sandbox", "limit": "0"}, "limit"),
    ({"groupBy": "sandbox", "limit": "501"}, "limit"),
    ({"groupBy": "sandbox", "cursor": "nonsense"}, "cursor"),
    ({"groupBy": "sandbox", "cursor": "W10"}, "cursor"),
    ({"groupBy": "sandbox", "from": "yesterday"}, "from"),
    ({"groupBy": "sandbox", "from": "2026-02-30"}, "from"),
    ({"groupBy": "sandbox", "from": "2026-01-01T00:00:00"}, "from"),
    ({"groupBy": "sandbox", "from": "2026-01-02", "to": "2026-01-01"}, "from"),
    ({"groupBy": "sandbox", "from": "2026-01-01", "to": "2026-04-02"}, "from"),
    ({"groupBy": "sandbox", "to": "0001-01-01"}, "to"),
    ({"groupBy": "sandbox", "to": "9999-12-31T23:59:59-23:59"}, "to"),
    ({"groupBy": "sandbox", "filter[status]": "running"}, "filter"),
    ({"groupBy": "sandbox", "filter[tag:]": "a"}, "filter"),
    ([("groupBy", "sandbox"), ("filter[tag:team]", "a"), ("filter[tag:team]", "b")], "filter"),
]


@pytest.mark.parametrize(("params", "field"), FAULTS, ids=str)
async def test_what_cannot_be_is_refused_by_name(
    api: Api, params: dict[str, str] | list[tuple[str, str]], field: str
) -> None:
    answer = await api.get("/usage", params=params)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(f"{field}:")


async def test_a_cursor_is_for_the_question_it_came_with(api: Api, three: list[str]) -> None:
    del three
    page = await asked(api, groupBy="sandbox", limit="1", **DAY)
    cursor = {"cursor": page["nextCursor"], "limit": "1"}
    await asked(api, groupBy="sandbox", **DAY, **cursor)
    for other in ({"groupBy": "tag:team"}, {"sort": "-diskOverageGbSeconds"}, {"from": "2026-01-03"}):
        answer = await api.get("/usage", params={"groupBy": "sandbox", **other, **cursor})
        assert (answer.status_code, answer.json()["error"][:7]) == (400, "cursor:")


async def test_ninety_days_and_thirty_are_the_longest(api: Api, sandbox: str) -> None:
    await asked(api, groupBy="sandbox", **{"from": "2026-01-01", "to": "2026-04-01"})
    month = {"from": "2026-01-01", "to": "2026-01-31"}
    answer = await api.get(f"/sandboxes/{sandbox}/usage", params=month)
    assert answer.content.count(b'"ts":') == 30 * 24 * 60
    params = {"from": "2026-01-01", "to": "2026-01-31T00:00:01Z"}
    answer = await api.get(f"/sandboxes/{sandbox}/usage", params=params)
    assert (answer.status_code, answer.json()["error"][:5]) == (400, "from:")


async def test_another_organisation_sees_nothing_of_it(other: Api, three: list[str]) -> None:
    answer = await asked(other, groupBy="tag:team", **DAY)
    assert (answer["items"], answer["untagged"]["sandboxCount"]) == ([], 0)
    assert amounts(answer["total"]) == (0.0, 0.0)
    refused = await other.get(f"/sandboxes/{three[0]}/usage", params=HOUR)
    assert refused.status_code == 404
