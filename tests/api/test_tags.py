"""Tags: put whole, read, counted, and refused by name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.node import Api

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
async def fresh(api: Api) -> str:
    return (await api.create())["sandboxID"]


async def put(api: Api, sandbox: str, tags: dict[str, Any]) -> dict[str, Any]:
    answer = await api.put(f"/sandboxes/{sandbox}/tags", json=tags)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def keys(api: Api) -> dict[str, tuple[int, int]]:
    """How many sandboxes and values each key has."""
    found = (await api.get("/tags")).json()["keys"]
    return {each["key"]: (each["sandboxCount"], each["valueCount"]) for each in found}


async def test_a_sandbox_begins_without_any(api: Api, fresh: str) -> None:
    answer = await api.get(f"/sandboxes/{fresh}/tags")
    assert answer.json() == {"tags": {}, "tagsLastUpdatedAt": None}


async def test_putting_replaces_everything(api: Api, fresh: str) -> None:
    first = await put(api, fresh, {"team": "a", "cost-centre:eu": "7"})
    assert first["tags"] == {"team": "a", "cost-centre:eu": "7"}
    assert (await api.get(f"/sandboxes/{fresh}/tags")).json() == first
    second = await put(api, fresh, {"team": "b"})
    assert second["tags"] == {"team": "b"}
    assert second["tagsLastUpdatedAt"] >= first["tagsLastUpdatedAt"]


async def test_an_empty_map_clears_them_and_the_moment_stays_known(api: Api, fresh: str) -> None:
    await put(api, fresh, {"team": "a"})
    cleared = await put(api, fresh, {})
    assert cleared["tags"] == {}
    assert cleared["tagsLastUpdatedAt"] is not None
    assert (await api.get(f"/sandboxes/{fresh}/tags")).json() == cleared


async def test_keys_are_counted_with_their_values(api: Api) -> None:
    for tags in ({"count": "a"}, {"count": "b"}, {"count": "a", "other": ""}):
        await put(api, (await api.create())["sandboxID"], tags)
    assert {"count": (3, 2), "other": (1, 1)}.items() <= (await keys(api)).items()


async def test_a_stopped_sandbox_keeps_its_tags_and_can_get_others(api: Api, fresh: str) -> None:
    await put(api, fresh, {"stopped": "1"})
    assert (await api.delete(f"/sandboxes/{fresh}")).status_code == 204
    assert (await api.get(f"/sandboxes/{fresh}/tags")).json()["tags"] == {"stopped": "1"}
    assert (await put(api, fresh, {"stopped": "2"}))["tags"] == {"stopped": "2"}
    assert (await keys(api))["stopped"] == (1, 1)


async def test_of_many_at_the_same_time_one_stays_whole(api: Api, fresh: str) -> None:
    given = [{"one": str(each), "two": str(each)} for each in range(10)]
    await asyncio.gather(*(put(api, fresh, tags) for tags in given))
    assert (await api.get(f"/sandboxes/{fresh}/tags")).json()["tags"] in given


async def test_as_many_and_as_long_as_may_be(api: Api, fresh: str) -> None:
    most = {f"{number:0>128}": "ü" * 256 for number in range(50)}
    assert (await put(api, fresh, most))["tags"] == most


REFUSED: list[tuple[object, str]] = [
    ({f"key{each}": "" for each in range(51)}, "at most 50"),
    ({"k" * 129: ""}, "1 to 128"),
    ({"": ""}, "1 to 128"),
    ({"with space": ""}, "1 to 128"),
    ({"line\n": ""}, "1 to 128"),
    ({"oc:team": ""}, "oc:team"),
    ({"team": "v" * 257}, "team"),
    ({"team": "\0"}, "team"),
    ({"team": 7}, "team"),
    ({"team": None}, "team"),
    (["team"], "JSON object"),
]


@pytest.mark.parametrize(("tags", "named"), REFUSED, ids=[named for _, named in REFUSED])
async def test_what_cannot_be_is_refused_by_name_and_changes_nothing(
    api: Api, fresh: str, tags: object, named: str
) -> None:
    before = await put(api, fresh, {"team": "a"})
    answer = await api.put(f"/sandboxes/{fresh}/tags", json=tags)
    assert answer.status_code == 400
    assert named in answer.json()["error"]
    assert (await api.get(f"/sandboxes/{fresh}/tags")).json() == before
