"""Sleep: by call and by idle time, and waking by call and by any use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest

from opencomputer.server.http import auth
from tests.api.state import hibernate, read, status, write
from tests.support.node import FIRST_KEY, Api, NodeFolder, api_of, receive_all
from tests.support.waiting import ANSWER_SECONDS, eventually

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
async def fresh(api: Api) -> str:
    sandbox = (await api.create(envs={"A": "1"}, timeout=600))["sandboxID"]
    await write(api, sandbox, "note", "saved")
    return sandbox


@pytest.fixture
async def anonymous(api: Api) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"{api.url}/api", timeout=ANSWER_SECONDS) as client:
        yield client


async def test_a_sandbox_is_put_to_sleep_and_stays_reachable(api: Api, fresh: str) -> None:
    asleep = await hibernate(api, fresh)
    assert (asleep["sandboxID"], asleep["status"]) == (fresh, "hibernated")
    assert asleep["sizeBytes"] > 0
    assert asleep["hibernationKey"]
    found = (await api.get(f"/sandboxes/{fresh}")).json()
    assert found["status"] == "hibernated"
    assert found["token"]
    assert found["connectURL"].endswith("/api")
    assert fresh in [each["sandboxID"] for each in (await api.get("/sandboxes")).json()]


async def test_putting_to_sleep_twice_is_no_error(api: Api, fresh: str) -> None:
    first = await hibernate(api, fresh)
    second = await hibernate(api, fresh)
    assert (second["status"], second["hibernationKey"]) == ("hibernated", first["hibernationKey"])


@pytest.mark.parametrize("body", [None, {}, {"timeout": None}])
async def test_waking_goes_on_with_what_was_there(api: Api, fresh: str, body: dict[str, Any] | None) -> None:
    await hibernate(api, fresh)
    answer = await api.post(f"/sandboxes/{fresh}/wake", **({} if body is None else {"json": body}))
    assert answer.status_code == 200, answer.text
    woken = answer.json()
    assert (woken["sandboxID"], woken["status"], woken["timeout"]) == (fresh, "running", 600)
    assert {"connectURL", "token", "region", "sandboxDomain"} <= set(woken)
    assert "recovered" not in woken
    assert await read(api, fresh, "note") == "saved"
    assert (await api.run(fresh, "echo $A"))["stdout"] == "1\n"


async def test_waking_may_set_another_idle_time(api: Api, fresh: str) -> None:
    await hibernate(api, fresh)
    assert (await api.post(f"/sandboxes/{fresh}/wake", json={"timeout": 0})).json()["timeout"] == 0
    assert (await api.post(f"/sandboxes/{fresh}/wake", json={"timeout": 7})).json()["timeout"] == 7
    await hibernate(api, fresh)
    # Control calls do not wake.
    assert (await api.post(f"/sandboxes/{fresh}/timeout", json={"timeout": 9})).status_code == 204
    assert await status(api, fresh) == "hibernated"
    assert (await api.post(f"/sandboxes/{fresh}/wake")).json()["timeout"] == 9


async def test_waking_what_runs_changes_nothing(api: Api, fresh: str) -> None:
    session = await api.start(fresh, "exec sleep 600")
    assert (await api.post(f"/sandboxes/{fresh}/wake")).json()["status"] == "running"
    listed = (await api.get(f"/sandboxes/{fresh}/exec")).json()
    assert [(each["sessionID"], each["running"]) for each in listed] == [(session, True)]


async def test_what_is_stopped_neither_sleeps_nor_wakes(api: Api, fresh: str) -> None:
    await api.delete(f"/sandboxes/{fresh}")
    for call in ("hibernate", "wake"):
        answer = await api.post(f"/sandboxes/{fresh}/{call}")
        assert (answer.status_code, answer.json()["code"]) == (410, "sandbox_stopped"), call


async def test_one_that_sleeps_can_be_killed(api: Api, fresh: str) -> None:
    await hibernate(api, fresh)
    assert (await api.delete(f"/sandboxes/{fresh}")).status_code == 204
    assert await status(api, fresh) == "stopped"
    assert (await api.post(f"/sandboxes/{fresh}/wake")).status_code == 410


@pytest.mark.parametrize("value", [-1, "60", 1.5, True, 10**18])
async def test_an_idle_time_that_is_none_is_refused(api: Api, sandbox: str, value: Any) -> None:
    answer = await api.post(f"/sandboxes/{sandbox}/wake", json={"timeout": value})
    assert (answer.status_code, answer.json()["field"]) == (400, "timeout")


# Any use wakes


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "exec/run", {"cmd": "true"}),
        ("POST", "exec/run-async", {"cmd": "true"}),
        ("POST", "exec", {"cmd": "true"}),
        ("GET", "exec", None),
        ("POST", "pty", {}),
        ("GET", "agent", None),
        ("GET", "files?path=note", None),
        ("GET", "files/list", None),
    ],
)
async def test_any_use_wakes(
    api: Api, fresh: str, method: str, path: str, body: dict[str, Any] | None
) -> None:
    await hibernate(api, fresh)
    answer = await api.request(
        method, f"/sandboxes/{fresh}/{path}", **({} if body is None else {"json": body})
    )
    assert answer.is_success, answer.text
    assert await status(api, fresh) == "running"


async def test_a_token_wakes_its_sandbox_and_can_be_exchanged_while_it_sleeps(
    api: Api, anonymous: httpx.AsyncClient, fresh: str
) -> None:
    await hibernate(api, fresh)
    token = (await api.get(f"/sandboxes/{fresh}")).json()["token"]
    refreshed = await anonymous.post(f"/sandboxes/{fresh}/token/refresh", headers={"X-API-Key": token})
    assert refreshed.status_code == 200
    assert await status(api, fresh) == "hibernated"
    headers = {"X-API-Key": refreshed.json()["token"]}
    answer = await anonymous.get(f"/sandboxes/{fresh}/files", params={"path": "note"}, headers=headers)
    assert (answer.status_code, answer.text) == (200, "saved")


async def test_a_socket_wakes(api: Api, fresh: str) -> None:
    await hibernate(api, fresh)
    terminal = (await api.post(f"/sandboxes/{fresh}/pty", json={})).json()["sessionID"]
    await hibernate(api, fresh)
    # The fake machine's processes do not survive, but the way to them is open.
    with pytest.raises(Exception, match="404"):
        async with api.socket(f"/sandboxes/{fresh}/pty/{terminal}"):
            pass
    assert await status(api, fresh) == "running"


async def test_many_who_come_at_once_wake_it_once(api: Api, fresh: str) -> None:
    await hibernate(api, fresh)
    answers = await asyncio.gather(
        *(api.post(f"/sandboxes/{fresh}/exec/run", json={"cmd": "true"}) for _ in range(20))
    )
    assert {answer.status_code for answer in answers} == {200}
    assert await read(api, fresh, "note") == "saved"


async def test_who_can_ask_again_is_told_so_and_finds_it_awake(
    api: Api, fresh: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hibernate(api, fresh)
    monkeypatch.setattr(auth, "PATIENCE_SECONDS", 0.05)
    path, headers = f"/sandboxes/{fresh}/files?path=note", {"X-OSB-Async-Wake": "1"}
    told = await api.get(path, headers=headers)
    assert (told.status_code, told.headers["retry-after"]) == (503, "1")
    assert (told.json()["waking"], told.json()["retryable"]) == (True, True)

    async def awake() -> bool:
        answer = await api.get(path, headers=headers)
        return answer.status_code == 200 and answer.text == "saved"

    assert await eventually(awake, "that it is awake")


async def test_looking_at_it_does_not_wake(api: Api, fresh: str) -> None:
    await hibernate(api, fresh)
    for path in ("", "/checkpoints", "/diff"):
        assert (await api.get(f"/sandboxes/{fresh}{path}")).status_code == 200
    assert await status(api, fresh) == "hibernated"


# Streams and idle time


async def test_sockets_are_closed_without_an_exit_when_it_falls_asleep(api: Api, fresh: str) -> None:
    session = await api.start(fresh, "exec sleep 600")
    async with api.socket(f"/sandboxes/{fresh}/exec/{session}") as socket:
        assert await socket.recv() == b"\x04"
        await hibernate(api, fresh)
        assert await receive_all(socket) == []
        assert socket.close_code == 1000
    assert await status(api, fresh) == "hibernated"


async def test_what_nobody_uses_falls_asleep_by_itself(api: Api) -> None:
    sandbox = (await api.create(timeout=1))["sandboxID"]

    async def asleep() -> bool:
        return await status(api, sandbox) == "hibernated"

    assert await eventually(asleep, "that it sleeps")
    assert (await api.run(sandbox, "echo awake"))["stdout"] == "awake\n"


async def test_a_command_that_runs_keeps_it_awake(api: Api) -> None:
    sandbox = (await api.create(timeout=1))["sandboxID"]
    assert (await api.run(sandbox, "sleep 3; echo done"))["stdout"] == "done\n"


async def test_one_that_sleeps_does_not_count_until_it_wakes(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = NodeFolder(tmp_path_factory.mktemp("limited"))
    async with folder.running(MAX_SANDBOXES_PER_ORG="1") as url, api_of(url, FIRST_KEY) as api:
        first = (await api.create())["sandboxID"]
        await hibernate(api, first)
        second = (await api.create())["sandboxID"]
        refused = await api.post(f"/sandboxes/{first}/wake")
        assert (refused.status_code, refused.json()["code"]) == (429, "concurrency_limit")
        used = await api.get(f"/sandboxes/{first}/exec")
        assert (used.status_code, used.json()["code"]) == (429, "concurrency_limit")
        assert await status(api, first) == "hibernated"
        await api.delete(f"/sandboxes/{second}")
        assert (await api.post(f"/sandboxes/{first}/wake")).status_code == 200
        await api.delete(f"/sandboxes/{first}")


async def test_sleep_outlasts_the_server(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = NodeFolder(tmp_path_factory.mktemp("restarted"))
    async with folder.running() as url, api_of(url, FIRST_KEY) as api:
        sandbox = (await api.create())["sandboxID"]
        await write(api, sandbox, "note", "saved")
        await hibernate(api, sandbox)
    async with folder.running() as url, api_of(url, FIRST_KEY) as api:
        assert await status(api, sandbox) == "hibernated"
        assert await read(api, sandbox, "note") == "saved"
        await api.delete(f"/sandboxes/{sandbox}")
