"""Links that let whoever has them in to one port of one sandbox, for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed

from tests.api.previews import cookie_of, gated, grant, link, refused, secret_of
from tests.api.state import hibernate, status
from tests.support import preview_program
from tests.support.node import FIRST_KEY, Api, NodeFolder, api_of, kill_all
from tests.support.visitors import Visitor, visitor

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture(scope="module")
async def port() -> AsyncGenerator[int]:
    server = await asyncio.start_server(preview_program.serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_a_grant_lets_in_by_link_and_then_by_cookie(api: Api, port: int) -> None:
    sandbox, _ = await gated(api)
    page = visitor(api.url, sandbox, port)
    made = await grant(api, sandbox, port, ttl=60)
    assert urlsplit(str(made["url"])).hostname == page.host
    first = await page.get(f"/a%2Fb?x=1&{link(made)[2:]}&y=2")
    assert first.status_code == 302
    assert first.headers["location"] == f"http://{page.host}:{page.at[1]}/a%2Fb?x=1&y=2"
    ways = {part.strip().lower() for part in first.headers["set-cookie"].split(";")[1:]}
    assert {"path=/", "httponly", "samesite=lax"} < ways
    assert any(each in ways for each in ("max-age=59", "max-age=60"))
    cookie = cookie_of(first)
    inside = await visitor(
        api.url, sandbox, port, Cookie=f"a=1; {cookie}; b=2", Authorization="Bearer x"
    ).get("/")
    seen = {name.lower(): value for name, value in inside.json()["headers"]}
    assert seen["cookie"] == "a=1; b=2"
    assert seen["authorization"] == "Bearer x"
    async with visitor(api.url, sandbox, port, Cookie=cookie).socket("/ws") as socket:
        await socket.send("by cookie")
        assert await socket.recv() == "by cookie"
    async with page.socket(f"/ws{link(made)[1:]}") as socket:
        await socket.send("by link")
        assert await socket.recv() == "by link"
    posted = await page.request("POST", link(made), content=b"x")
    assert posted.json()["line"] == "POST / HTTP/1.1"


async def test_over_tls_the_cookie_works_inside_of_frames(folder: NodeFolder, api: Api, port: int) -> None:
    """As it is behind a proxy that the operator trusts."""
    sandbox, _ = await gated(api)
    made = await grant(api, sandbox, port)
    plain = await visitor(api.url, sandbox, port, X_Forwarded_Proto="https").get(link(made))
    assert "secure" not in plain.headers["set-cookie"].lower()
    path: Path = folder.path / "trusting"
    trusting = NodeFolder(path)
    async with trusting.running(TRUSTED_PROXIES="127.0.0.1/32") as url, api_of(url, FIRST_KEY) as there:
        sandbox, _ = await gated(there)
        made = await grant(there, sandbox, port)
        https = visitor(url, sandbox, port, X_Forwarded_Proto="https", X_Forwarded_For="9.9.9.9")
        first = await https.get(link(made))
        assert first.headers["set-cookie"].startswith("__Host-oc-preview=")
        assert {"Secure", "SameSite=None", "Partitioned"} < set(first.headers["set-cookie"].split("; "))
        assert first.headers["location"].startswith(f"https://{https.host}")
        cookies = {"Cookie": cookie_of(first), "X-Forwarded-Proto": "https", "X-Forwarded-For": "9.9.9.9"}
        seen = (await Visitor(url, https.host, cookies).get("/")).json()
        assert ["x-forwarded-for", "9.9.9.9"] in seen["headers"]
        assert ["x-forwarded-proto", "https"] in seen["headers"]
        await kill_all(there)


async def test_a_grant_is_for_one_port_of_one_sandbox(api: Api, port: int) -> None:
    sandbox, _ = await gated(api)
    elsewhere, _ = await gated(api)
    made = await grant(api, sandbox, port + 1 if port < 65535 else port - 1)
    token = secret_of(made)
    for name in (sandbox, elsewhere):
        assert refused(await visitor(api.url, name, port).get(link(made)), "preview_grant_invalid")
        cookie = f"oc-preview={token}; __Host-oc-preview={token}"
        answer = await visitor(api.url, name, port, Cookie=cookie).get("/")
        assert refused(answer, "preview_grant_invalid")
        assert refused(await visitor(api.url, name, port, Authorization=f"Bearer {token}").get("/"))
    assert (await api.get("/sandboxes", headers={"X-API-Key": token})).status_code == 401


async def test_a_revoked_grant_neither_wakes_nor_reaches(api: Api, port: int) -> None:
    sandbox, _ = await gated(api)
    made = await grant(api, sandbox, port)
    kept = await grant(api, sandbox, port)
    path = f"/sandboxes/{sandbox}/preview/{port}/grants"
    assert [each["id"] for each in (await api.get(path)).json()] == [made["id"], kept["id"]]
    assert all("url" not in each for each in (await api.get(path)).json())
    page = visitor(api.url, sandbox, port)
    first = await page.get(link(made))
    inside = visitor(api.url, sandbox, port, Cookie=cookie_of(first))
    async with inside.socket("/ws") as socket:
        assert (await api.delete(f"{path}/{made['id']}")).status_code == 204
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert socket.close_code == 1008
    assert (await api.delete(f"{path}/{made['id']}")).status_code == 404
    await hibernate(api, sandbox)
    assert refused(await inside.get("/"), "preview_grant_invalid")
    assert refused(await page.get(link(made)), "preview_grant_invalid")
    assert await status(api, sandbox) == "hibernated"
    # Following a link is not yet a visit.
    second = await page.get(link(kept))
    assert await status(api, sandbox) == "hibernated"
    assert (await visitor(api.url, sandbox, port, Cookie=cookie_of(second)).get("/")).status_code == 200
    assert await status(api, sandbox) == "running"


async def test_a_grant_ends_by_itself_and_ends_what_it_opened(api: Api, port: int) -> None:
    sandbox, _ = await gated(api)
    made = await grant(api, sandbox, port, ttl=1)
    page = visitor(api.url, sandbox, port)
    async with page.socket(f"/ws{link(made)[1:]}") as socket:
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert socket.close_code == 1008
    assert refused(await page.get(link(made)), "preview_grant_invalid")
    assert (await api.get(f"/sandboxes/{sandbox}/preview/{port}/grants")).json() == []


@pytest.mark.parametrize("ttl", [0, -1, 604801, 10**18, "60", 1.5, True, None])
async def test_how_long_a_grant_may_last(api: Api, sandbox: str, ttl: object) -> None:
    answer = await api.post(f"/sandboxes/{sandbox}/preview/1/grants", json={"ttl": ttl})
    assert (answer.status_code, answer.json()["field"]) == (400, "ttl")


async def test_a_wrong_link_is_refused_where_none_is_needed_and_a_cookie_is_not_looked_at(
    api: Api, sandbox: str, port: int
) -> None:
    page = visitor(api.url, sandbox, port)
    assert refused(await page.get("/?oc_preview_grant=nonsense"), "preview_grant_invalid")
    inside = await visitor(api.url, sandbox, port, Cookie="oc-preview=old; a=1").get("/")
    assert ["cookie", "a=1"] in inside.json()["headers"]


async def test_grants_and_tokens_of_others(api: Api, other: Api, sandbox: str) -> None:
    made = await grant(api, sandbox, 3000)
    path = f"/sandboxes/{sandbox}/preview/3000/grants"
    for method, each in (("POST", path), ("GET", path), ("DELETE", f"{path}/{made['id']}")):
        assert (await other.request(method, each)).status_code == 404
    assert len((await api.get(path)).json()) == 1


async def test_nothing_that_lets_in_is_kept_as_it_is(api: Api, folder: NodeFolder, port: int) -> None:
    sandbox, token = await gated(api)
    made = await grant(api, sandbox, port)
    secret = secret_of(made)
    kept = b"".join(each.read_bytes() for each in folder.data.glob("opencomputer.db*"))
    assert sandbox.encode() in kept
    assert token.encode() not in kept
    assert secret.encode() not in kept
