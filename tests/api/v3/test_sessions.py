"""`/v3/sessions`: listing, looking, and who may (agent-sessions.md section 3.12)."""

from __future__ import annotations

import pytest

from opencomputer.server.domain.sessions.session import Boxes
from opencomputer.wire.ids import SandboxId, SessionId
from tests.api.v3.answers import error_of, ok
from tests.support.session_world import AGENT, SessionWorld

pytestmark = pytest.mark.anyio


async def test_the_list_is_newest_first_and_comes_in_pages(world: SessionWorld) -> None:
    made: list[str] = []
    for _ in range(5):
        made.insert(0, await world.new())
        world.clock.advance(1)
    assert [each["id"] for each in ok(await world.client.get("/sessions"))["data"]] == made
    seen: list[str] = []
    cursor = None
    while True:
        params = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        found = ok(await world.client.get("/sessions", params=params))
        seen += [each["id"] for each in found["data"]]
        if (cursor := found["next_cursor"]) is None:
            break
    assert seen == made
    assert ok(await world.client.get("/sessions", params={"limit": "5"}))["next_cursor"] is None
    assert len(ok(await world.client.get("/sessions", params={"limit": "9" * 40}))["data"]) == 5
    assert ok(await world.other.get("/sessions")) == {"data": [], "next_cursor": None}


async def test_sessions_of_the_same_moment_are_not_lost_between_pages(world: SessionWorld) -> None:
    made = {await world.new() for _ in range(5)}
    seen: list[str] = []
    cursor = None
    for _ in range(5):
        params = {"limit": "1"} | ({"cursor": cursor} if cursor else {})
        found = ok(await world.client.get("/sessions", params=params))
        seen += [each["id"] for each in found["data"]]
        cursor = found["next_cursor"]
    assert (set(seen), len(seen), cursor) == (made, 5, None)


async def test_the_list_is_filtered_by_everything_that_is_asked_for(world: SessionWorld) -> None:
    first = (await world.create(key="one"))["session"]
    world.clock.advance(10)
    second = (await world.create(key="two"))["session"]
    ok(await world.client.post(f"/sessions/{second['id']}/archive"))

    async def found(**params: str) -> list[str]:
        return [each["id"] for each in ok(await world.client.get("/sessions", params=params))["data"]]

    assert await found(status="archived") == [second["id"]]
    assert await found(status="queued") == [first["id"]]
    assert await found(agent=AGENT) == [second["id"], first["id"]]
    assert await found(agent="agt_nothing") == []
    assert await found(key="one") == [first["id"]]
    assert await found(after=first["created_at"]) == [second["id"]]
    assert await found(before=second["created_at"]) == [first["id"]]
    assert await found(after="2026-01-01T00:00:00+00:00", before="2027-01-01T00:00:00Z", key="two") == [
        second["id"]
    ]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"status": "asleep"}, "status"),
        ({"status": ""}, "status"),
        ({"limit": "0"}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"limit": "1.5"}, "limit"),
        ({"limit": "²"}, "limit"),
        ({"after": "yesterday"}, "after"),
        ({"before": "2026-01-01"}, "before"),
        ({"before": "2026-01-01T00:00:00"}, "before"),
        ({"after": "0001-01-01T00:00:00+23:00"}, "after"),
        ({"key": "ü"}, "key"),
        ({"agent": "\0"}, "agent"),
        ({"cursor": "nonsense"}, "cursor"),
        ({"cursor": "WyJhIiwiYiJd"}, "cursor"),
        ({"cursor": ""}, "cursor"),
    ],
)
async def test_what_makes_no_sense_in_a_query_is_named(
    world: SessionWorld, params: dict[str, str], field: str
) -> None:
    error_of(await world.client.get("/sessions", params=params), 400, "invalid", field)


async def test_a_cursor_is_good_for_its_own_list_only(world: SessionWorld) -> None:
    for _ in range(2):
        await world.new()
    cursor = ok(await world.client.get("/sessions?limit=1"))["next_cursor"]
    answer = await world.client.get("/sessions", params={"cursor": cursor, "status": "queued"})
    error_of(answer, 400, "invalid", "cursor")
    error_of(await world.other.get("/sessions", params={"cursor": cursor}), 400, "invalid", "cursor")


async def test_a_session_tells_which_sandboxes_it_has(world: SessionWorld) -> None:
    session = await world.new()
    await world.tables.sessions.set_boxes(SessionId(session), Boxes(hands=SandboxId("sb-00000001")))
    shown = ok(await world.client.get(f"/sessions/{session}"))
    assert shown["sandboxes"] == {"brain": None, "hands": "sb-00000001"}


OF_A_SESSION = [
    ("GET", ""),
    ("GET", "/result"),
    ("GET", "/turns"),
    ("GET", "/turns/trn_1"),
    ("GET", "/sources"),
    ("POST", "/cancel"),
    ("POST", "/archive"),
    ("POST", "/client-tokens"),
    ("POST", "/messages"),
]


@pytest.mark.parametrize(("method", "path"), OF_A_SESSION)
async def test_anothers_session_is_as_one_that_is_not_there(
    world: SessionWorld, method: str, path: str
) -> None:
    session = await world.new()
    body = {"text": "hi"} if path == "/messages" else None
    error_of(await world.other.request(method, f"/sessions/{session}{path}", json=body), 404, "not_found")
    for missing in ("ses_nothing", "nothing", "%00", "..%2f"):
        answer = await world.client.request(method, f"/sessions/{missing}{path}", json=body)
        error_of(answer, 404, "not_found")
    async with world.bearing(None) as stranger:
        answer = await stranger.request(method, f"/sessions/{session}{path}", json=body)
        error_of(answer, 401, "unauthorized")


async def test_no_sources_are_an_empty_list(world: SessionWorld) -> None:
    assert ok(await world.client.get(f"/sessions/{await world.new()}/sources")) == []
