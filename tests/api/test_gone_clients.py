"""Clients that go away at any moment leave nothing behind: no sandbox, no task, no attachment."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from opencomputer.server.services.sandboxes.pool import Pool
from tests.support.node import FIRST_KEY, Api, NodeFolder, api_of, kill_all
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


def work() -> Counter[str]:
    """What the node in this event loop has going on, by name."""
    return Counter(str(getattr(task.get_coro(), "__qualname__", task)) for task in asyncio.all_tasks())


async def settled(before: Counter[str]) -> None:
    """Fail unless everything that began since has ended."""

    async def nothing_more() -> bool:
        return not work() - before

    try:
        await eventually(nothing_more, "the end of all work")
    except AssertionError:
        raise AssertionError(f"still going on: {dict(work() - before)}") from None


async def raw(api: Api, method: str, path: str, body: dict[str, Any]) -> asyncio.StreamWriter:
    """Send a request and hand out the connection, to be cut."""
    host, port = api.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    content = json.dumps(body).encode()
    head = (
        f"{method} /api{path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {api.key}\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    writer.write(head.encode() + content)
    await writer.drain()
    return writer


async def test_a_create_whose_caller_is_gone_is_cleaned_up(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has learnt its id, so nobody could ever use it or kill it."""
    claim = Pool.claim
    claimed, go_on = asyncio.Event(), asyncio.Event()

    async def slow(*arguments: Any, **options: Any) -> Any:
        claimed.set()
        await go_on.wait()
        return await claim(*arguments, **options)

    monkeypatch.setattr(Pool, "claim", slow)
    before = {each["sandboxID"] for each in (await api.get("/sandboxes?status=all")).json()}
    connection = await raw(api, "POST", "/sandboxes", {})
    await claimed.wait()
    connection.close()
    await asyncio.sleep(0.05)
    go_on.set()

    async def stopped() -> bool:
        rows = (await api.get("/sandboxes?status=all")).json()
        return [row["status"] for row in rows if row["sandboxID"] not in before] == ["stopped"]

    await eventually(stopped, "the end of the sandbox that nobody knows")


async def test_sockets_that_come_and_go_leave_nothing(api: Api, sandbox: str) -> None:
    session = await api.start(sandbox, "yes | head -c 3000000; cat")
    terminal = (await api.post(f"/sandboxes/{sandbox}/pty", json={"shell": "/bin/sh"})).json()["sessionID"]
    async with api.socket(f"/sandboxes/{sandbox}/exec/{session}") as socket:
        await socket.recv()
    await asyncio.sleep(0.2)
    before = work()

    async def visit(number: int) -> None:
        kind, id_ = ("pty", terminal) if number % 3 == 0 else ("exec", session)
        socket = await api.socket(f"/sandboxes/{sandbox}/{kind}/{id_}")
        with suppress(ConnectionClosed):
            if number % 2 and kind == "exec":
                await asyncio.wait_for(socket.recv(), 60)
                await socket.send(b"\x00x\n")
        if number % 5 == 0:
            socket.transport.abort()
        else:
            await socket.close()

    for start in range(0, 60, 10):
        await asyncio.gather(*(visit(start + number) for number in range(10)))
    await settled(before)

    async def alone() -> bool:
        found = (await api.get(f"/sandboxes/{sandbox}/exec")).json()
        return next(each for each in found if each["sessionID"] == session)["attachedClients"] == 0

    await eventually(alone, "the leaving of all clients")


async def test_requests_that_are_cut_leave_nothing(api: Api, sandbox: str) -> None:
    await api.put(f"/sandboxes/{sandbox}/files?path=large", content=bytes(5_000_000))
    before = work()
    for delay in (0.0, 0.01, 0.05):
        connections = [
            await raw(api, "POST", f"/sandboxes/{sandbox}/exec/run", {"cmd": "echo hello"}),
            await raw(api, "POST", f"/sandboxes/{sandbox}/exec/run-async", {"cmd": "echo hello"}),
            await raw(api, "GET", f"/sandboxes/{sandbox}/files?path=large", {}),
            await raw(api, "PUT", f"/sandboxes/{sandbox}/files?path=other", {"x": "y"}),
            await raw(api, "GET", f"/sandboxes/{sandbox}/exec", {}),
        ]
        await asyncio.sleep(delay)
        for connection in connections:
            connection.transport.abort()
    await settled(before)
    assert (await api.run(sandbox, "echo alive"))["stdout"] == "alive\n"


async def test_a_sandbox_that_was_killed_leaves_nothing(api: Api) -> None:
    before = work()
    sandbox = (await api.create())["sandboxID"]
    session = await api.start(sandbox, "echo hello; sleep 600")
    runs = [asyncio.create_task(api.run(sandbox, "sleep 600")) for _ in range(3)]
    async with api.socket(f"/sandboxes/{sandbox}/exec/{session}") as socket:
        await socket.recv()
        await api.delete(f"/sandboxes/{sandbox}")
    await asyncio.gather(*runs, return_exceptions=True)
    await settled(before)


async def test_a_node_that_stopped_leaves_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = NodeFolder(tmp_path_factory.mktemp("node"))
    before = work()
    async with folder.running(POOL_MAX="1") as url, api_of(url, FIRST_KEY) as api:
        sandbox = (await api.create())["sandboxID"]
        session = await api.start(sandbox, "echo hello; sleep 600")
        async with api.socket(f"/sandboxes/{sandbox}/exec/{session}") as socket:
            await socket.recv()
            await api.run(sandbox, "true")
        await kill_all(api)
    await settled(before)
