"""What goes through a preview, in both directions, comes out as it went in."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from opencomputer.server.http import preview_http
from tests.support import preview_program
from tests.support.node import Api
from tests.support.visitors import Visitor, visitor
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def port() -> AsyncGenerator[int]:
    server = await asyncio.start_server(preview_program.serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.fixture
def page(api: Api, sandbox: str, port: int) -> Visitor:
    return visitor(api.url, sandbox, port)


def headers_of(seen: dict[str, list[list[str]]], name: str) -> list[str]:
    return [value for key, value in seen["headers"] if key.lower() == name]


@pytest.mark.parametrize(
    "target",
    [
        "/a%2Fb",
        "/100%25",
        "/a;v=1/b",
        "//double//slash",
        "/x?q=%2F&r=a+b&&=",
        "/%7Euser/?",
        "/%C3%BC",
    ],
)
async def test_paths_and_queries_arrive_as_they_were_sent(page: Visitor, target: str) -> None:
    answer = await page.raw(f"GET {target} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n".encode())
    seen = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert seen["line"] == f"GET {target.removesuffix('?')} HTTP/1.1"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
async def test_every_method_goes_through(page: Visitor, method: str) -> None:
    answer = await page.request(method, "/thing", content=b"body")
    assert answer.json()["line"] == f"{method} /thing HTTP/1.1"
    assert answer.json()["length"] == 4


async def test_head_has_a_length_and_no_body(page: Visitor) -> None:
    answer = await page.request("HEAD", "/big?1000")
    assert (answer.headers["content-length"], answer.content) == ("1000", b"")


async def test_headers_about_the_way_are_ours_and_the_rest_is_the_visitors(page: Visitor) -> None:
    lies = [
        ("X-Forwarded-For", "6.6.6.6"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "evil.example"),
        ("Forwarded", "for=6.6.6.6"),
        ("X-Real-IP", "6.6.6.6"),
    ]
    mine = [("X-Twice", "1"), ("X-Twice", "2"), ("Authorization", "Basic eDp5"), ("Cookie", "a=1;  b=2")]
    hop = [("Connection", "close, X-Secret-Hop"), ("X-Secret-Hop", "1"), ("TE", "trailers")]
    head = "".join(f"{name}: {value}\r\n" for name, value in [*lies, *mine, *hop])
    answer = await page.raw(f"GET / HTTP/1.1\r\nHost: HOST:99\r\n{head}\r\n".encode())
    seen = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert headers_of(seen, "x-forwarded-for") == ["127.0.0.1"]
    assert headers_of(seen, "x-forwarded-proto") == ["http"]
    assert headers_of(seen, "x-forwarded-host") == headers_of(seen, "host") == [f"{page.host}:99"]
    assert headers_of(seen, "forwarded") == headers_of(seen, "x-real-ip") == []
    assert headers_of(seen, "x-twice") == ["1", "2"]
    assert headers_of(seen, "authorization") == ["Basic eDp5"]
    assert headers_of(seen, "cookie") == ["a=1;  b=2"]
    assert headers_of(seen, "x-secret-hop") == headers_of(seen, "te") == []


async def test_answers_keep_their_headers_but_for_the_way(page: Visitor) -> None:
    answer = await page.get("/cookies")
    assert answer.headers.get_list("set-cookie") == ["a=1; Path=/", "b=2"]
    assert "x-private" not in answer.headers
    assert "keep-alive" not in answer.headers
    assert len(answer.headers.get_list("date")) == 1


async def test_compressed_bodies_and_cors_headers_are_not_touched(page: Visitor) -> None:
    async with page.client() as client, client.stream("GET", "/gzip") as answer:
        raw = b"".join([piece async for piece in answer.aiter_raw()])
    assert raw == preview_program.GZIPPED
    assert answer.headers["access-control-allow-origin"] == "x"


async def test_events_arrive_while_they_happen(page: Visitor) -> None:
    assert await page.events(5) == [f"data: {number}" for number in range(5)]


async def test_uploads_stream_with_and_without_a_length(page: Visitor) -> None:
    data = os.urandom(5 << 20)

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(data), 100_000):
            yield data[start : start + 100_000]

    for content in (data, pieces()):
        answer = await page.request("POST", "/upload", content=content)
        assert answer.json()["sha256"] == hashlib.sha256(data).hexdigest()
        assert answer.json()["length"] == len(data)


async def test_a_program_may_answer_before_it_has_heard_everything(page: Visitor) -> None:
    async def slowly() -> AsyncIterator[bytes]:
        yield b"x" * 1000
        await asyncio.sleep(0.2)
        yield b"x" * 1000

    answer = await page.request("POST", "/early", content=slowly())
    assert (answer.status_code, answer.text) == (413, "no more")


async def test_downloads_stream_and_arrive_whole(page: Visitor) -> None:
    size = (30 << 20) + 7
    total, digest, expected = 0, hashlib.sha256(), hashlib.sha256()
    async with page.client() as client, client.stream("GET", f"/big?{size}") as answer:
        assert answer.headers["content-length"] == str(size)
        async for piece in answer.aiter_raw():
            total += len(piece)
            digest.update(piece)
    whole, rest = divmod(size, len(preview_program.PIECE))
    for _ in range(whole):
        expected.update(preview_program.PIECE)
    expected.update(preview_program.PIECE[:rest])
    assert (total, digest.hexdigest()) == (size, expected.hexdigest())


async def test_hints_and_answers_without_a_body(page: Visitor) -> None:
    assert (await page.get("/hints")).text == "after a hint"
    unchanged = await page.get("/unchanged")
    assert (unchanged.status_code, unchanged.headers["etag"]) == (304, '"x"')


async def test_the_programs_own_errors_and_redirects_are_its_own(
    page: Visitor, api: Api, sandbox: str
) -> None:
    answer = await page.get("/fails")
    assert (answer.status_code, answer.text) == (502, "sandbox not found")
    answer = await page.get("/redirects")
    assert (answer.status_code, answer.headers["location"][:23]) == (302, "http://169.254.169.254/")
    assert (await api.get(f"/sandboxes/{sandbox}")).json()["status"] == "running"


@pytest.mark.parametrize("path", ["/garbage", "/hangs-up"])
async def test_a_program_that_speaks_no_http(page: Visitor, path: str) -> None:
    answer = await page.get(path)
    assert (answer.status_code, answer.json()["code"]) == (502, "program_fault")


async def test_an_answer_that_breaks_off_does_not_look_complete(page: Visitor) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await page.get("/cut")


async def test_a_program_that_never_answers(page: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview_http, "FIRST_BYTE_SECONDS", 0.3)
    answer = await page.get("/silent")
    assert (answer.status_code, answer.json()["code"]) == (504, "program_silent")


async def test_a_websocket_goes_through(page: Visitor) -> None:
    async with page.socket("/ws?greet", subprotocols=["chat.v1", "chat.v2"]) as socket:
        assert socket.subprotocol == "chat.v2"
        assert socket.response is not None
        assert socket.response.headers["x-from-program"] == "yes"
        assert await socket.recv() == "welcome"
        await socket.send("text ☕")
        assert await socket.recv() == "text ☕"
        data = os.urandom(3 << 20)
        await socket.send(data)
        assert await socket.recv() == data
        await socket.send("ping")
        assert await socket.recv() == "pong came"
        await (await socket.ping())
        await socket.send("close 4321 so long")
        with pytest.raises(ConnectionClosed):
            await socket.recv()
    assert (socket.close_code, socket.close_reason) == (4321, "so long")


async def test_a_visitors_close_reaches_the_program(
    page: Visitor, capsys: pytest.CaptureFixture[str]
) -> None:
    async with page.socket("/ws") as socket:
        await socket.send("x")
        assert await socket.recv() == "x"
        await socket.close(4009, "enough")

    wanted, heard = repr((4009).to_bytes(2, "big") + b"enough"), ""

    async def told() -> bool:
        nonlocal heard
        heard += capsys.readouterr().out
        return wanted in heard

    await eventually(told, "that the program is told")


async def test_a_program_may_refuse_a_websocket(page: Visitor) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await page.socket("/fails").__aenter__()
    assert refused.value.response.status_code == 502
    assert refused.value.response.body == b"sandbox not found"


async def test_a_websocket_to_nothing(api: Api, sandbox: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await visitor(api.url, sandbox, 1).socket("/ws").__aenter__()
    assert refused.value.response.status_code == 502
    assert json.loads(refused.value.response.body or b"")["code"] == "nothing_listening"
