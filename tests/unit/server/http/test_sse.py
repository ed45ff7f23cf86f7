"""The build stream, to the letter."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.types import Message

from opencomputer.server.domain.errors import BuildFailed
from opencomputer.server.http.sse import BuildStream, frame
from opencomputer.server.services.sandboxes.build_log import BuildLine, Listener
from opencomputer.wire.images import PublishedView
from tests.support.virtual_time import virtual_backend

pytestmark = pytest.mark.anyio

RESULT = PublishedView(name="é", public=True)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return virtual_backend()


class Client:
    """Receives a response; leaves when told."""

    def __init__(self, *, leave_after: int | None = None) -> None:
        self.messages: list[Message] = []
        self.leave_after = leave_after
        self.gone = asyncio.Event()

    async def send(self, message: Message) -> None:
        self.messages.append(message)
        if self.leave_after is not None and len(self.messages) > self.leave_after:
            self.gone.set()

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    async def get(self, stream: BuildStream[PublishedView]) -> None:
        await stream({"type": "http"}, self.receive, self.send)


async def test_a_stream_is_what_the_parsers_of_clients_take() -> None:
    async def work(log: Listener) -> PublishedView:
        await log(BuildLine(1, "run", 'a "b"\nc\r\n\u2028é'))
        return RESULT

    client = Client()
    await client.get(BuildStream(work))
    headers = dict(client.messages[0]["headers"])
    assert headers[b"content-type"].startswith(b"text/event-stream")
    assert headers[b"cache-control"] == b"no-cache"
    assert b"content-length" not in headers
    assert client.body == (
        b'event: build_log\ndata: {"step":1,"type":"run","message":"a \\"b\\"\\nc\\r\\n\\u2028\\u00e9"}\n\n'
        b'event: result\ndata: {"name":"\\u00e9","public":true}\n\n'
    )
    assert client.messages[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


@pytest.mark.parametrize(
    ("error", "data"),
    [
        (BuildFailed("step 1 (run) failed"), {"error": "step 1 (run) failed", "code": "build_failed"}),
        (RuntimeError("of ours"), {"error": "Something went wrong on the server.", "code": "internal"}),
    ],
)
async def test_an_error_ends_it(error: Exception, data: dict[str, str]) -> None:
    async def work(_log: Listener) -> PublishedView:
        raise error

    client = Client()
    await client.get(BuildStream(work))
    assert client.body == frame("error", data)
    assert json.loads(client.body.splitlines()[1].removeprefix(b"data: ")) == data


async def test_a_silent_build_keeps_the_line_open() -> None:
    """No gap is longer than fifteen seconds."""

    async def work(_log: Listener) -> PublishedView:
        await asyncio.sleep(100)
        return RESULT

    client = Client()
    await client.get(BuildStream(work))
    assert client.body.count(b": keepalive\n\n") in (9, 10)
    assert client.body.endswith(frame("result", {"name": "é", "public": True}))


async def test_a_client_that_leaves_ends_the_work() -> None:
    cancelled = asyncio.Event()

    async def work(log: Listener) -> PublishedView:
        await log(BuildLine(1, "run", "a"))
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return RESULT

    client = Client(leave_after=1)
    await asyncio.wait_for(client.get(BuildStream(work)), 60)
    assert cancelled.is_set()


async def test_a_result_that_nobody_got_is_undone() -> None:
    undone: list[PublishedView] = []

    async def work(log: Listener) -> PublishedView:
        await log(BuildLine(1, "run", "a"))
        await client.gone.wait()
        return RESULT

    async def undo(result: PublishedView) -> None:
        undone.append(result)

    client = Client(leave_after=0)
    stream = BuildStream(work, undo)
    await client.get(stream)
    assert undone == [RESULT]
    assert b"event: result" not in client.body


async def test_a_result_that_arrived_is_not_undone() -> None:
    undone: list[PublishedView] = []

    async def work(_log: Listener) -> PublishedView:
        return RESULT

    async def undo(result: PublishedView) -> None:
        undone.append(result)

    await Client().get(BuildStream(work, undo))
    assert undone == []


async def test_more_lines_than_may_wait_arrive_all_the_same() -> None:

    async def work(log: Listener) -> PublishedView:
        for number in range(1000):
            await log(BuildLine(1, "run", str(number)))
        return RESULT

    client = Client()
    await client.get(BuildStream(work))
    assert client.body.count(b"event: build_log") == 1000
