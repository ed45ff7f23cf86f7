"""Who may come to a preview, by which names, and what is on record about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.api.previews import gated, grant, link, refused
from tests.api.state import checkpoint, hibernate, status
from tests.support import preview_program
from tests.support.node import FIRST_KEY, Api, NodeFolder, api_of, kill_all
from tests.support.visitors import Visitor, visitor
from tests.support.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

OWN = "apps.example.com"
TOKEN = "a token of our own"


@pytest.fixture(scope="module")
async def api(folder: NodeFolder) -> AsyncGenerator[Api]:
    domains = f"{OWN},others.example.com=another-org"
    async with folder.running(POOL_MAX="1", PREVIEW_DOMAINS=domains) as url, api_of(url, FIRST_KEY) as made:
        yield made
        await kill_all(made)


@pytest.fixture(scope="module")
async def port() -> AsyncGenerator[int]:
    server = await asyncio.start_server(preview_program.serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


# Names


async def test_a_previews_name_never_leads_to_the_api_and_no_other_name_to_a_preview(
    api: Api, sandbox: str, port: int
) -> None:
    key = {"X_API_Key": FIRST_KEY}
    page = visitor(api.url, sandbox, port, **key)
    assert (await page.get("/api/sandboxes")).json()["line"] == "GET /api/sandboxes HTTP/1.1"
    for domain in ("evil.example", "localhost.evil.example", OWN, "others.example.com"):
        answer = await visitor(api.url, sandbox, port, domain, **key).get("/api/sandboxes")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    for host in (f"{sandbox}.localhost", "169.254.169.254", f"x.{page.host}"):
        answer = await Visitor(api.url, host, {"X-API-Key": FIRST_KEY}).get("/api/sandboxes")
        assert answer.status_code == 200
        assert isinstance(answer.json(), list)


@pytest.mark.parametrize("port", [0, 65536, 99999])
async def test_a_port_that_is_none(api: Api, sandbox: str, port: int) -> None:
    assert (await visitor(api.url, sandbox, port).get("/")).status_code == 404


async def test_names_are_not_case_sensitive_and_may_end_with_a_dot(api: Api, sandbox: str, port: int) -> None:
    for host in (f"{sandbox}-P{port}.LocalHost", f"{sandbox}-p{port}.localhost."):
        answer = await Visitor(api.url, host, {}).get("/")
        assert answer.json()["line"] == "GET / HTTP/1.1"


async def test_unknown_and_stopped_sandboxes(api: Api, port: int) -> None:
    assert (await visitor(api.url, "sb-00000000", port).get("/")).status_code == 404
    gone = (await api.create())["sandboxID"]
    await api.delete(f"/sandboxes/{gone}")
    answer = await visitor(api.url, gone, port).get("/")
    assert (answer.status_code, answer.json()["code"]) == (410, "sandbox_stopped")


async def test_nothing_listens(api: Api, sandbox: str) -> None:
    answer = await visitor(api.url, sandbox, 1).get("/")
    assert (answer.status_code, answer.json()["code"]) == (502, "nothing_listening")
    page = await visitor(api.url, sandbox, 1, Accept="text/html,*/*").get("/")
    assert (page.status_code, page.headers["retry-after"]) == (503, "3")
    assert '<meta http-equiv="refresh" content="3">' in page.text
    assert await status(api, sandbox) == "running"


async def test_a_program_that_begins_to_listen_a_moment_later_is_waited_for(api: Api, sandbox: str) -> None:
    listener = await asyncio.start_server(preview_program.serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    listener.close()
    await listener.wait_closed()
    asking = asyncio.create_task(visitor(api.url, sandbox, port).get("/"))
    await asyncio.sleep(0.2)
    async with await asyncio.start_server(preview_program.serve, "127.0.0.1", port):
        assert (await asking).status_code == 200


# Records


async def test_a_record_is_made_once_listed_and_removed(api: Api, other: Api, sandbox: str) -> None:
    path = f"/sandboxes/{sandbox}/preview"
    body: dict[str, Any] = {"port": 3000, "authConfig": {}}
    first, again = await api.post(path, json=body), await api.post(path, json=body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    record = first.json()
    server = urlsplit(api.url)
    assert record | {"id": "", "orgId": "", "createdAt": ""} == {
        "id": "",
        "sandboxId": sandbox,
        "orgId": "",
        "hostname": f"{sandbox}-p3000.localhost",
        "url": f"http://{sandbox}-p3000.localhost:{server.port}",
        "port": 3000,
        "sslStatus": "active",
        "authConfig": {},
        "createdAt": "",
    }
    assert (await api.get(path)).json() == [record]
    for method, each in (("GET", path), ("DELETE", f"{path}/3000"), ("POST", f"{path}/rotate")):
        assert (await other.request(method, each)).status_code == 404
    assert (await api.delete(f"{path}/3000")).status_code == 204
    assert (await api.delete(f"{path}/3000")).status_code == 404
    assert (await api.get(path)).json() == []


async def test_what_a_record_must_not_say(api: Api, sandbox: str) -> None:
    path = f"/sandboxes/{sandbox}/preview"
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "port"),
        ({"port": 0}, "port"),
        ({"port": 65536}, "port"),
        ({"port": "80"}, "port"),
        ({"port": 80, "authConfig": {"scheme": "basic"}}, "authConfig"),
        ({"port": 80, "domain": "not-ours.example"}, "domain"),
        ({"port": 80, "domain": "others.example.com"}, "domain"),
    ]
    for body, field in wrong:
        answer = await api.post(path, json=body)
        assert (answer.status_code, answer.json()["field"]) == (400, field), answer.text
    for port in ("0", "65536", "x", "９", "9" * 5000):
        assert (await api.delete(f"{path}/{port}")).status_code == 400


async def test_a_name_under_a_domain_of_ones_own(api: Api, port: int) -> None:
    sandbox = (await api.create())["sandboxID"]
    own = visitor(api.url, sandbox, port, OWN)
    assert (await own.get("/")).status_code == 404
    made = await api.post(f"/sandboxes/{sandbox}/preview", json={"port": port, "domain": OWN.upper()})
    assert made.json()["customHostname"] == own.host
    for page in (own, visitor(api.url, sandbox, port)):
        assert (await page.get("/")).json()["line"] == "GET / HTTP/1.1"
    await api.delete(f"/sandboxes/{sandbox}/preview/{port}")
    assert (await own.get("/")).status_code == 404


async def test_records_need_a_sandbox_that_runs_and_end_with_it(api: Api) -> None:
    sandbox = (await api.create())["sandboxID"]
    path = f"/sandboxes/{sandbox}/preview"
    assert (await api.post(path, json={"port": 1})).status_code == 201
    await hibernate(api, sandbox)
    assert (await api.post(path, json={"port": 2})).status_code == 400
    assert [each["port"] for each in (await api.get(path)).json()] == [1]
    assert await status(api, sandbox) == "hibernated"
    await api.delete(f"/sandboxes/{sandbox}")
    assert (await api.get(path)).json() == []
    assert (await api.post(path, json={"port": 2})).status_code == 400
    assert (await api.post(f"{path}/rotate")).status_code == 410
    assert (await api.post(f"{path}/1/grants")).status_code == 410


# The token


async def test_a_token_opens_and_never_reaches_the_program(api: Api, port: int) -> None:
    sandbox, token = await gated(api, scheme="bearer", token="auto")
    assert len(token) == 43
    assert "previewAuthToken" not in (await api.get(f"/sandboxes/{sandbox}")).json()
    for headers in ({"Authorization": f"Bearer {token}"}, {"X-OC-Preview-Token": token}):
        answer = await Visitor(api.url, f"{sandbox}-p{port}.localhost", headers).get("/")
        assert answer.status_code == 200
        assert token not in answer.text
    both = {"X-OC-Preview-Token": token, "Authorization": "Bearer the-programs-own"}
    answer = await Visitor(api.url, f"{sandbox}-p{port}.localhost", both).get("/")
    assert "the-programs-own" in answer.text
    both["Authorization"] = f"Bearer {token}"
    assert token not in (await Visitor(api.url, f"{sandbox}-p{port}.localhost", both).get("/")).text


async def test_without_the_token_nobody_passes(api: Api, port: int) -> None:
    sandbox, token = await gated(api)
    page = visitor(api.url, sandbox, port)
    assert refused(await page.get("/"))
    assert refused(await page.get(f"/?token={token}&oc_preview_token={token}"))
    for method in ("OPTIONS", "HEAD", "POST", "DELETE"):
        answer = await page.request(method, "/")
        assert answer.status_code == 401
    assert refused(await visitor(api.url, sandbox, port, Authorization="Bearer wrong").get("/"))
    assert refused(await visitor(api.url, sandbox, port, Authorization=f"Basic {token}").get("/"))
    wrong = {"X_OC_Preview_Token": "wrong", "Authorization": f"Bearer {token}"}
    assert refused(await visitor(api.url, sandbox, port, **wrong).get("/"))
    assert refused(await visitor(api.url, sandbox, port, X_API_Key=FIRST_KEY).get("/"))
    with pytest.raises(InvalidStatus) as socket:
        await page.socket("/ws").__aenter__()
    assert socket.value.response.status_code == 401


async def test_a_token_of_ones_own(api: Api, port: int) -> None:
    own = "abcdefghijklmnop"
    sandbox, token = await gated(api, token=own)
    assert token == own
    assert (await visitor(api.url, sandbox, port, Authorization=f"Bearer {own}").get("/")).status_code == 200


@pytest.mark.parametrize(
    "auth",
    [{"token": "x" * 15}, {"token": TOKEN}, {"token": 5}, {"scheme": "basic"}, "bearer", [], 1],
)
async def test_a_token_that_cannot_be_one(api: Api, auth: object) -> None:
    answer = await api.post("/sandboxes", json={"previewAuth": auth})
    assert answer.status_code == 400
    assert answer.json()["field"].startswith("previewAuth")


async def test_a_create_that_is_repeated_tells_the_same_token(api: Api) -> None:
    key = {"Idempotency-Key": "one-and-only"}
    first = await api.post("/sandboxes", json={"previewAuth": {}}, headers=key)
    again = await api.post("/sandboxes", json={"previewAuth": {}}, headers=key)
    assert first.json()["previewAuthToken"] == again.json()["previewAuthToken"]
    sandbox = first.json()["sandboxID"]
    await api.post(f"/sandboxes/{sandbox}/preview/rotate")
    late = await api.post("/sandboxes", json={"previewAuth": {}}, headers=key)
    assert late.json()["sandboxID"] == sandbox
    assert "previewAuthToken" not in late.json()


async def test_rotating_ends_the_old_token_and_what_it_opened(api: Api, port: int) -> None:
    sandbox, token = await gated(api)
    old = visitor(api.url, sandbox, port, Authorization=f"Bearer {token}")
    granted = await grant(api, sandbox, port)
    async with old.socket("/ws") as socket, old.client() as client:
        async with client.stream("GET", "/events?600") as events:
            answer = await api.post(f"/sandboxes/{sandbox}/preview/rotate")
            assert answer.json()["scheme"] == "bearer"
            with pytest.raises(httpx.RemoteProtocolError):
                await events.aread()
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert socket.close_code == 1008
    assert refused(await old.get("/"))
    new = answer.json()["previewAuthToken"]
    assert (await visitor(api.url, sandbox, port, Authorization=f"Bearer {new}").get("/")).status_code == 200
    # A grant is a permission of its own.
    assert (await visitor(api.url, sandbox, port).get(link(granted))).status_code == 302


async def test_rotating_locks_what_was_open(api: Api, port: int) -> None:
    sandbox = (await api.create())["sandboxID"]
    page = visitor(api.url, sandbox, port)
    async with page.socket("/ws") as socket:
        token = (await api.post(f"/sandboxes/{sandbox}/preview/rotate")).json()["previewAuthToken"]
        with pytest.raises(ConnectionClosed):
            await socket.recv()
    assert refused(await page.get("/"))
    assert (await visitor(api.url, sandbox, port, X_OC_Preview_Token=token).get("/")).status_code == 200


async def test_forks_of_a_locked_sandbox_are_locked_by_tokens_of_their_own(api: Api, port: int) -> None:
    sandbox, token = await gated(api)
    made = await checkpoint(api, sandbox, "locked")
    first, second = (await api.post(f"/sandboxes/{sandbox}/fork", json={"count": 2})).json()
    third = (await api.post(f"/sandboxes/from-checkpoint/{made['id']}")).json()
    tokens = [token, *(each["previewAuthToken"] for each in (first, second, third))]
    assert len(set(tokens)) == 4
    for each in (first, third):
        name = each["sandboxID"]
        assert refused(await visitor(api.url, name, port).get("/"))
        assert refused(await visitor(api.url, name, port, Authorization=f"Bearer {token}").get("/"))
        own = f"Bearer {each['previewAuthToken']}"
        assert (await visitor(api.url, name, port, Authorization=own).get("/")).status_code == 200


async def test_forks_of_an_open_sandbox_are_open(api: Api, sandbox: str) -> None:
    [made] = (await api.post(f"/sandboxes/{sandbox}/fork")).json()
    assert "previewAuthToken" not in made


# Waking, and use


async def test_a_hundred_visitors_wake_a_sandbox_once(api: Api, port: int) -> None:
    sandbox, token = await gated(api)
    await hibernate(api, sandbox)
    assert refused(await visitor(api.url, sandbox, port).get("/"))
    assert await status(api, sandbox) == "hibernated"
    started = (await api.get(f"/sandboxes/{sandbox}")).json()
    page = visitor(api.url, sandbox, port, Authorization=f"Bearer {token}")
    limits = httpx.Limits(max_connections=100)
    headers = {"Host": page.host, **page.headers}
    async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=60, limits=limits) as client:
        answers = await asyncio.gather(*(client.get(f"/{number}") for number in range(100)))
    assert {answer.status_code for answer in answers} == {200}
    assert started["sandboxID"] == sandbox


async def test_visits_are_use_and_attempts_are_not(api: Api, port: int) -> None:
    made = await api.create(timeout=1, previewAuth={})
    sandbox, token = made["sandboxID"], made["previewAuthToken"]
    page = visitor(api.url, sandbox, port, Authorization=f"Bearer {token}")
    async with page.client() as client, client.stream("GET", "/events?20") as events:
        async for _ in events.aiter_raw():
            assert await status(api, sandbox) == "running"

    async def attempt() -> bool:
        assert refused(await visitor(api.url, sandbox, port).get("/"))
        return await status(api, sandbox) == "hibernated"

    await eventually(attempt, "that it sleeps")
    async with page.socket("/ws") as socket:
        for _ in range(4):
            await socket.send("still here")
            assert await socket.recv() == "still here"
            await asyncio.sleep(0.5)
            assert await status(api, sandbox) == "running"
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert socket.close_reason == "sandbox hibernated"


async def test_a_checkpoint_interrupts_and_visitors_come_back(api: Api, sandbox: str, port: int) -> None:
    page = visitor(api.url, sandbox, port)
    async with page.socket("/ws") as socket:
        await checkpoint(api, sandbox, "meanwhile")
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert socket.close_code == 1012
    async with page.socket("/ws?greet") as socket:
        assert await socket.recv() == "welcome"


async def test_tokens_grants_and_records_outlive_the_server(folder: NodeFolder, port: int) -> None:
    lasting = NodeFolder(folder.path / "lasting")
    async with lasting.running() as url, api_of(url, FIRST_KEY) as before:
        sandbox, token = await gated(before)
        await before.post(f"/sandboxes/{sandbox}/preview", json={"port": port})
        made = await grant(before, sandbox, port)
    async with lasting.running() as url, api_of(url, FIRST_KEY) as after:
        assert refused(await visitor(url, sandbox, port).get("/"))
        page = visitor(url, sandbox, port, Authorization=f"Bearer {token}")
        assert (await page.get("/")).status_code == 200
        assert (await visitor(url, sandbox, port).get(link(made))).status_code == 302
        assert [each["port"] for each in (await after.get(f"/sandboxes/{sandbox}/preview")).json()] == [port]
        await kill_all(after)
