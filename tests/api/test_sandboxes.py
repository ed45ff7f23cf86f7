"""Get, list, kill, timeout: a sandbox as its owner sees it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from opencomputer.server.domain.capacity import HostLoad
from opencomputer.server.host.gauge import SystemGauge
from opencomputer.server.services.sandboxes import pool
from tests.support.node import FIRST_KEY, Api, NodeFolder, api_of, kill_all

pytestmark = pytest.mark.anyio


async def asleep_now(api: Api, sandbox: str) -> None:
    assert (await api.post(f"/sandboxes/{sandbox}/hibernate")).status_code == 200


async def ids(api: Api, query: str = "") -> list[str]:
    answer = await api.get(f"/sandboxes{query}")
    assert answer.status_code == 200, answer.text
    return [sandbox["sandboxID"] for sandbox in answer.json()]


async def test_get_shows_what_create_showed(api: Api) -> None:
    created = await api.create(metadata={"a": "b"}, alias="label")
    found = (await api.get(f"/sandboxes/{created['sandboxID']}")).json()
    created.pop("token")
    assert found.pop("token")
    assert found == created


async def test_a_killed_sandbox_stays_readable_and_is_gone_for_all_else(api: Api) -> None:
    sandbox = (await api.create())["sandboxID"]
    killed = await api.delete(f"/sandboxes/{sandbox}")
    assert (killed.status_code, killed.content) == (204, b"")
    found = (await api.get(f"/sandboxes/{sandbox}")).json()
    assert (found["status"], found["stopReason"]) == ("stopped", "user_requested")
    assert found["stoppedAt"] >= found["startedAt"]
    assert {"token", "connectURL"}.isdisjoint(found)
    for method, path in (("POST", "exec"), ("GET", "exec"), ("GET", "files?path=x"), ("GET", "agent")):
        body = {"json": {"cmd": "true"}} if method == "POST" else {}
        answer = await api.request(method, f"/sandboxes/{sandbox}/{path}", **body)
        assert (answer.status_code, answer.json()["code"]) == (410, "sandbox_stopped"), path
    again = await api.delete(f"/sandboxes/{sandbox}")
    assert again.status_code == 204


async def test_an_unknown_sandbox_cannot_be_killed(api: Api) -> None:
    answer = await api.delete("/sandboxes/sb-00000000")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("flag", ["true", "1", "yes", "on", "false"])
async def test_the_flag_about_secret_stores_is_understood(api: Api, flag: str) -> None:
    answer = await api.delete(f"/sandboxes/sb-00000000?deleteSecretStore={flag}")
    assert answer.status_code == 404


async def test_a_timeout_is_stored_and_shown(api: Api, sandbox: str) -> None:
    for seconds in (90, 0):
        answer = await api.post(f"/sandboxes/{sandbox}/timeout", json={"timeout": seconds})
        assert (answer.status_code, answer.content) == (204, b"")
        assert (await api.get(f"/sandboxes/{sandbox}")).json()["timeout"] == seconds


@pytest.mark.parametrize("value", [-1, "60", 1.5, None, True, 10**18, "NaN", {}, []])
async def test_a_timeout_that_is_none_is_refused(api: Api, sandbox: str, value: Any) -> None:
    answer = await api.post(f"/sandboxes/{sandbox}/timeout", json={"timeout": value})
    assert (answer.status_code, answer.json()["field"]) == (400, "timeout")


async def test_a_timeout_has_to_be_said(api: Api, sandbox: str) -> None:
    answer = await api.post(f"/sandboxes/{sandbox}/timeout")
    assert (answer.status_code, answer.json()["field"]) == (400, "timeout")


# Lists


async def test_a_list_is_a_bare_array_newest_first(api: Api) -> None:
    first = (await api.create())["sandboxID"]
    second = (await api.create())["sandboxID"]
    assert (await ids(api))[:2] == [second, first]


async def test_lists_are_filtered_by_status(api: Api) -> None:
    running = (await api.create())["sandboxID"]
    stopped = (await api.create())["sandboxID"]
    await api.delete(f"/sandboxes/{stopped}")
    by_default, all_, only_stopped = [
        set(await ids(api, query)) for query in ("", "?status=all", "?status=stopped")
    ]
    assert running in by_default
    assert stopped not in by_default
    assert {running, stopped} <= all_
    assert stopped in only_stopped
    assert running not in only_stopped
    assert set(await ids(api, "?status=running,stopped")) == all_
    asleep = (await api.create())["sandboxID"]
    await asleep_now(api, asleep)
    assert await ids(api, "?status=hibernated") == [asleep]
    assert asleep not in await ids(api, "?status=running")
    assert set(await ids(api, "?status=hibernated, running")) == by_default | {asleep}
    assert set(await ids(api)) == by_default | {asleep}


@pytest.mark.parametrize("query", ["status=sleeping", "status=running,asleep", "status=,", "status=RUNNING"])
async def test_an_unknown_status_is_refused(api: Api, query: str) -> None:
    answer = await api.get(f"/sandboxes?{query}")
    assert (answer.status_code, answer.json()["field"]) == (400, "status")


@pytest.mark.parametrize("limit", ["0", "-1", "201", "ten", "1.5", "", "٣", "1e2", "99999999999999999999"])
async def test_a_page_has_a_size_within_bounds(api: Api, limit: str) -> None:
    answer = await api.get(f"/sandboxes?limit={limit}")
    if limit == "":
        assert answer.status_code in (200, 400)
        return
    assert (answer.status_code, answer.json()["field"]) == (400, "limit")


async def test_pages_cover_the_whole_list(api: Api) -> None:
    while len(await ids(api, "?status=all")) < 5:
        await api.create()
    whole = await ids(api, "?status=all")
    seen: list[str] = []
    query = "?status=all&limit=2"
    while True:
        answer = await api.get(f"/sandboxes{query}")
        seen += [each["sandboxID"] for each in answer.json()]
        cursor = answer.headers.get("x-next-cursor")
        if cursor is None:
            break
        query = f"?status=all&limit=2&cursor={cursor}"
    assert seen == whole


@pytest.mark.parametrize("cursor", ["sb-00000000", "x", "%00", "sb-00000000%27--"])
async def test_a_cursor_that_names_nothing_is_refused(api: Api, cursor: str) -> None:
    answer = await api.get(f"/sandboxes?cursor={cursor}")
    assert answer.status_code in (400, 404)
    assert answer.json()["error"]


# Limits of a node


async def test_a_create_beyond_capacity_waits_and_is_then_told_when_to_come_back(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = HostLoad(0, 32 << 30, 500 << 30, 1000 << 30, 0)

    def no_room(_gauge: SystemGauge, _machines: int) -> HostLoad:
        return full

    monkeypatch.setattr(SystemGauge, "load", no_room)
    monkeypatch.setattr(pool, "_CLAIM_SECONDS", 0.5)
    answers = [await api.post("/sandboxes", json={}) for _ in range(2)]
    refused = answers[-1]  # the first may have found a machine that was ready
    assert (refused.status_code, refused.json()["code"]) == (503, "no_capacity")
    assert "memory" in refused.json()["error"]
    assert refused.json()["retryable"] is True
    assert int(refused.headers["retry-after"]) >= 1


async def test_an_organisation_may_run_so_many_at_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = NodeFolder(tmp_path_factory.mktemp("limited"))
    async with (
        folder.running(MAX_SANDBOXES_PER_ORG="2", MAX_DISK_MB="30000") as url,
        api_of(url, FIRST_KEY) as api,
        api_of(url, await folder.second_organisation()) as other,
    ):
        answers = await asyncio.gather(*(api.post("/sandboxes", json={}) for _ in range(4)))
        made = [answer for answer in answers if answer.status_code == 201]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert (len(made), len(refused)) == (2, 2)
        body = refused[0].json()
        assert (body["code"], body["active"], body["limit"]) == ("concurrency_limit", 2, 2)
        assert body["retryable"] is True
        assert int(refused[0].headers["retry-after"]) >= 1
        assert (await other.post("/sandboxes", json={})).status_code == 201
        await api.delete(f"/sandboxes/{made[0].json()['sandboxID']}")
        assert (await api.post("/sandboxes", json={})).status_code == 201
        too_large = await api.post("/sandboxes", json={"diskMB": 30001})
        assert (too_large.status_code, too_large.json()["code"]) == (403, "forbidden")
        await kill_all(api)
        await kill_all(other)
