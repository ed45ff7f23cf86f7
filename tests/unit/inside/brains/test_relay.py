"""The relay: one address for tools whose endpoint changes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest

from opencomputer.inside.brains import relay as relay_module
from opencomputer.inside.brains.posting import post
from opencomputer.inside.brains.relay import ToolRelay
from tests.support.tool_server import serve_tools

pytestmark = pytest.mark.anyio


@pytest.fixture
async def relay() -> AsyncGenerator[ToolRelay]:
    opened = ToolRelay()
    await opened.open()
    yield opened
    await opened.close()


def call(name: str, **arguments: str) -> bytes:
    params = {"name": name, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).encode()


def message_in(body: bytes) -> Mapping[str, Any]:
    """The one message of a stream of events, whatever keeps it alive before."""
    (data,) = [line for line in body.split(b"\n") if line.startswith(b"data: ")]
    return json.loads(data.removeprefix(b"data: "))


async def answer(relay: ToolRelay, body: bytes) -> Mapping[str, Any]:
    status, answered = await post(relay.url, body, {})
    assert status == 200
    return message_in(answered)


async def test_calls_go_to_the_endpoint_of_the_request_that_runs(relay: ToolRelay) -> None:
    with serve_tools(bash=lambda _: "one") as first, serve_tools(bash=lambda _: "two") as second:
        for endpoint, expected in ((first.url, "one"), (second.url, "two")):
            with relay.to(endpoint):
                result = (await answer(relay, call("bash", command="x")))["result"]
            assert result["content"][0]["text"] == expected


async def test_without_a_request_calls_are_refused(relay: ToolRelay) -> None:
    refused = await answer(relay, call("bash"))
    assert (refused["id"], "no request is running" in refused["error"]["message"]) == (7, True)


async def test_a_question_is_noticed_unless_it_failed(relay: ToolRelay) -> None:
    def fail(_: Mapping[str, Any]) -> str:
        raise ValueError("no text")

    with serve_tools() as tools, relay.to(tools.url):
        await answer(relay, call("say", text="?"))
        tools.tools["ask"] = fail
        await answer(relay, call("ask", text="?"))
        assert not relay.asked
        del tools.tools["ask"]
        await answer(relay, call("ask", text="?"))
        assert relay.asked
        with relay.to(tools.url):
            assert not relay.asked


async def test_a_long_call_is_kept_alive(relay: ToolRelay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "ALIVE_SECONDS", 0.01)
    released = threading.Event()
    with serve_tools(bash=lambda _: str(released.wait(20))) as tools, relay.to(tools.url):
        asking = asyncio.ensure_future(post(relay.url, call("bash"), {}))
        assert await asyncio.to_thread(tools.called.wait, 20)
        released.set()
        _, body = await asking
    assert message_in(body)["result"]["content"][0]["text"] == "True"


async def test_leaving_the_request_breaks_calls_off(relay: ToolRelay) -> None:
    released = threading.Event()
    with serve_tools(bash=lambda _: str(released.wait(20))) as tools:
        with relay.to(tools.url):
            asking = asyncio.ensure_future(post(relay.url, call("bash"), {}))
            assert await asyncio.to_thread(tools.called.wait, 20)
        (outcome,) = await asyncio.gather(asking, return_exceptions=True)
        released.set()
    assert isinstance(outcome, Exception)


@pytest.mark.parametrize(("body", "status"), [(b"no json", 400), (b"[]", 400), (b'{"method": "x"}', 202)])
async def test_what_needs_no_answer_gets_none(relay: ToolRelay, body: bytes, status: int) -> None:
    assert (await post(relay.url, body, {}))[0] == status


async def test_tools_that_are_away_are_an_error_of_the_call(relay: ToolRelay) -> None:
    with relay.to("http://127.0.0.1:9/mcp"):
        assert "cannot be reached" in (await answer(relay, call("bash")))["error"]["message"]
