"""A program in a real machine, as those who come by its preview find it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import preview_program
from tests.support.node import Api, api_of
from tests.support.server import ServerProcess
from tests.support.visitors import Visitor, visitor
from tests.support.waiting import eventually

pytestmark = [pytest.mark.machines, pytest.mark.anyio, pytest.mark.timeout(300)]

PORT = 3000
PROGRAM = Path(preview_program.__file__).read_bytes()
MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
async def api(shared_server: ServerProcess, anyio_backend: str) -> AsyncGenerator[Api]:
    async with api_of(shared_server.url, shared_server.api_key) as made:
        yield made


@pytest.fixture(scope="module")
async def box(api: Api) -> AsyncGenerator[dict[str, Any]]:
    """A sandbox that asks for a token and has the program, which listens on 127.0.0.1 only."""
    made = await api.create(previewAuth={})
    root = f"/sandboxes/{made['sandboxID']}"
    assert (await api.put(f"{root}/files?path=program.py", content=PROGRAM)).status_code == 204
    await api.start(made["sandboxID"], f"exec python3 program.py {PORT}")
    yield made
    await api.delete(root)


@pytest.fixture(scope="module")
async def page(api: Api, box: dict[str, Any]) -> Visitor:
    return visitor(api.url, box["sandboxID"], PORT, Authorization=f"Bearer {box['previewAuthToken']}")


async def test_what_is_sent_arrives_and_no_token_does(page: Visitor, box: dict[str, Any]) -> None:
    head = f"Authorization: {page.headers['Authorization']}\r\nX-Forwarded-For: 6.6.6.6\r\nConnection: close"
    for target in ("/a%2Fb", "/100%25", "/a;v=1", "//double", "/x?q=%2F&&="):
        answer = await page.raw(f"GET {target} HTTP/1.1\r\nHost: HOST\r\n{head}\r\n\r\n".encode())
        seen = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert seen["line"] == f"GET {target} HTTP/1.1"
        assert box["previewAuthToken"] not in answer.decode()
        assert ["x-forwarded-for", "127.0.0.1"] in seen["headers"]
    anyone = visitor(page.url, box["sandboxID"], PORT)
    assert (await anyone.get("/")).status_code == 401
    # What the machine may not reach, its names do not reach either: the guest dials its own loopback only.
    assert (await visitor(page.url, box["sandboxID"], 7000, **page.headers).get("/")).status_code == 502


async def test_events_and_messages_are_live(page: Visitor) -> None:
    assert await page.events(5) == [f"data: {number}" for number in range(5)]
    async with page.socket("/ws?greet", subprotocols=["chat.v2"]) as socket:
        assert socket.subprotocol == "chat.v2"
        assert await socket.recv() == "welcome"
        data = os.urandom(MEBIBYTE)
        await socket.send(data)
        assert await socket.recv() == data


async def test_large_bodies_stream_both_ways_and_the_server_stays_small(
    page: Visitor, shared_server: ServerProcess
) -> None:
    piece, count = os.urandom(MEBIBYTE), 100

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(count):
            yield piece

    assert shared_server.process is not None
    before = resident_bytes(shared_server.process.pid)
    answer = await page.request("PUT", "/upload", content=pieces())
    expected = hashlib.sha256()
    for _ in range(count):
        expected.update(piece)
    assert answer.json()["length"] == count * MEBIBYTE
    assert answer.json()["sha256"] == expected.hexdigest()
    received = 0
    async with page.client() as client, client.stream("GET", f"/big?{count * MEBIBYTE}") as download:
        async for each in download.aiter_raw():
            received += len(each)
    assert received == count * MEBIBYTE
    assert resident_bytes(shared_server.process.pid) - before < 64 * MEBIBYTE


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_fifty_visitors_wake_it_once_and_strangers_do_not(
    api: Api, page: Visitor, box: dict[str, Any]
) -> None:
    root = f"/sandboxes/{box['sandboxID']}"
    assert (await api.post(f"{root}/hibernate")).status_code == 200
    assert (await visitor(page.url, box["sandboxID"], PORT).get("/")).status_code == 401
    assert (await api.get(root)).json()["status"] == "hibernated"
    headers = {"Host": page.host, **page.headers}
    limits = httpx.Limits(max_connections=50)
    async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=120, limits=limits) as client:
        answers = await asyncio.gather(*(client.get(f"/{number}") for number in range(50)))
    assert {answer.status_code for answer in answers} == {200}
    woken = (await api.get(root)).json()
    assert (woken["status"], woken.get("recovered")) == ("running", None)


async def test_a_fork_serves_too_under_a_name_and_a_token_of_its_own(
    api: Api, page: Visitor, box: dict[str, Any]
) -> None:
    [made] = (await api.post(f"/sandboxes/{box['sandboxID']}/fork")).json()
    try:
        token = made["previewAuthToken"]
        assert token != box["previewAuthToken"]
        fork = visitor(page.url, made["sandboxID"], PORT, Authorization=f"Bearer {token}")
        assert (await fork.get("/")).json()["line"] == "GET / HTTP/1.1"
        assert (await visitor(page.url, made["sandboxID"], PORT, **page.headers).get("/")).status_code == 401
    finally:
        await api.delete(f"/sandboxes/{made['sandboxID']}")

    async def again() -> bool:
        return (await page.get("/")).status_code == 200

    assert await eventually(again, "that the source serves")
