"""What counts as use of a sandbox: requests to the end of their answers, and messages of sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import datetime
from typing import Any

import pytest
from starlette.requests import HTTPConnection
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from opencomputer.server.contracts.driver import MachineId, MachineSpec
from opencomputer.server.http.activity import ActivityTracker, begin_use, used_by
from opencomputer.server.services.sandboxes.live import Activity, LiveSandbox
from tests.support import rows
from tests.support.memory.machines import MemoryHost, MemoryMachine
from tests.support.virtual_time import VirtualClock, virtual_backend
from tests.unit.server.services.harness import BASE, LIMITS, ORG

pytestmark = pytest.mark.anyio

App = Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return virtual_backend()


@pytest.fixture
async def live(anyio_backend: object) -> LiveSandbox:
    clock = VirtualClock()
    spec = MachineSpec(MachineId("m1"), BASE.layers, LIMITS, "t")
    machine = MemoryMachine(MemoryHost(), spec, "t")
    return LiveSandbox(rows.sandbox(ORG), machine, Activity(clock, clock.now()))


def now() -> datetime:
    return VirtualClock().now()


async def serve(app: App, kind: str, *incoming: Message) -> list[Message]:
    """Run an application behind the tracker; what comes in comes a second apart."""
    waiting, sent = list(incoming), list[Message]()

    async def receive() -> Message:
        await asyncio.sleep(1)
        return waiting.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Scope = {"type": kind, "path": "/", "method": "GET", "headers": [], "query_string": b""}
    await ActivityTracker(app)(scope, receive, send)
    return sent


async def test_a_request_counts_until_its_answer_has_been_sent(live: LiveSandbox) -> None:
    """Not only until its handler has returned."""
    seen: list[bool] = []

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            await asyncio.sleep(60)
            seen.append(live.activity.last() == now())
            yield b"x"

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begin_use(HTTPConnection(scope), live)
        await StreamingResponse(chunks())(scope, receive, send)

    disconnects = [{"type": "http.request"}] * 1000
    await serve(app, "http", *disconnects)
    ended = now()
    assert seen == [True] * 3
    await asyncio.sleep(10)
    assert live.activity.last() == ended


async def test_a_request_that_fails_counts_as_long_as_it_took(live: LiveSandbox) -> None:
    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        begin_use(HTTPConnection(scope), live)
        await asyncio.sleep(30)
        raise ValueError

    with pytest.raises(ValueError):
        await serve(app, "http")
    failed = now()
    await asyncio.sleep(10)
    assert live.activity.last() == failed


async def test_a_request_that_is_given_up_ends(live: LiveSandbox) -> None:
    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        begin_use(HTTPConnection(scope), live)
        await asyncio.sleep(1000)

    request = asyncio.create_task(serve(app, "http"))
    await asyncio.sleep(30)
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    given_up = now()
    await asyncio.sleep(10)
    assert live.activity.last() == given_up


async def test_a_request_that_gets_to_no_sandbox_is_no_use(live: LiveSandbox) -> None:
    began = live.activity.last()

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        assert used_by(HTTPConnection(scope)) is None
        await send({"type": "http.response.start", "status": 404, "headers": []})

    await serve(app, "http")
    await asyncio.sleep(10)
    assert live.activity.last() == began


async def test_a_socket_counts_by_its_messages_in_both_directions(live: LiveSandbox) -> None:
    seen: list[bool] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begin_use(HTTPConnection(scope), live)
        await send({"type": "websocket.accept"})
        await receive()
        seen.append(live.activity.last() == now())
        await asyncio.sleep(60)
        seen.append(live.activity.last() == now())
        await send({"type": "websocket.send", "bytes": b"output"})
        seen.append(live.activity.last() == now())

    await serve(app, "websocket", {"type": "websocket.receive", "bytes": b"input"})
    assert seen == [True, False, True]


async def test_an_open_socket_on_which_nothing_is_said_does_not_count(live: LiveSandbox) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begin_use(HTTPConnection(scope), live)
        await send({"type": "websocket.accept"})
        await asyncio.sleep(600)
        await receive()
        await send({"type": "websocket.close"})

    began = now()
    await serve(app, "websocket", {"type": "websocket.disconnect"})
    assert live.activity.last() == began


async def test_the_life_of_the_server_is_no_request() -> None:
    seen: list[str] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope["type"])

    await serve(app, "lifespan")
    assert seen == ["lifespan"]
