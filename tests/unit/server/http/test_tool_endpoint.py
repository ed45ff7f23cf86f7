"""Tools over MCP: the official client uses them over HTTP, and nobody but the brain they are for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp_types import CallToolResult, TextContent
from starlette.types import ASGIApp, Receive, Scope, Send

from opencomputer.server.contracts.runtimes import CommandResult
from opencomputer.server.contracts.tools import ToolScope
from opencomputer.server.domain.sessions.session import Session
from opencomputer.server.http import tool_endpoint
from opencomputer.server.http.metadata import create_metadata_app
from opencomputer.server.listeners import bind, listening
from opencomputer.server.services.facade import Services
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sessions.facade import DurableServices
from opencomputer.server.services.sessions.tool_calls import OpenDesk
from opencomputer.server.services.sessions.tools import Tools
from tests.support.durable import MemoryHands, MemoryLog, a_session, a_turn, printed
from tests.support.real_clock import RealClock
from tests.unit.server.services.harness import ORG, Node

pytestmark = pytest.mark.anyio


class _From:
    """Lets requests come from where a machine would be."""

    def __init__(self, app: ASGIApp, address: str) -> None:
        self._app = app
        self.address = address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, "client": (self.address, 40000)}, receive, send)


class Brain:
    """A brain with tools, and the node that serves them."""

    def __init__(self, session: Session, live: LiveSandbox, tools: Tools, door: _From, url: str) -> None:
        self.live = live
        self.door = door
        self.hands = MemoryHands()
        self._session = session
        self._tools = tools
        self._url = url
        self.turn = a_turn(session)
        self.log = MemoryLog(self.turn)

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[tuple[str, OpenDesk]]:
        async def hands() -> MemoryHands:
            return self.hands

        deadline = RealClock().now().replace(year=2100)
        async with self._tools.open(ToolScope(self._session, self.turn, self.log, hands, deadline)) as desk:
            yield desk.url.replace("http://169.254.169.254", self._url), desk


@asynccontextmanager
async def a_brain(folder: Path) -> AsyncGenerator[Brain]:
    session = a_session(ORG)
    node = Node(folder)
    async with node.process() as process:
        live = await process.live_one()
        live.sandbox = replace(live.sandbox, metadata={"oc.session": session.id, "oc.role": "brain"})
        tools = Tools(RealClock())
        services: Any = object.__new__(Services)
        durable: Any = object.__new__(DurableServices)
        for bundle, fields in (
            (durable, {"tools": tools}),
            (services, {"durable": durable, "live": process.live, "clock": RealClock()}),
        ):
            for name, value in fields.items():
                object.__setattr__(bundle, name, value)
        door = _From(create_metadata_app(services), live.machine.address)
        bound = bind("127.0.0.1", 0)
        async with listening(door, bound):
            yield Brain(session, live, tools, door, f"http://127.0.0.1:{bound.getsockname()[1]}")


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


def a_call(tool: str, request_id: int = 1, **arguments: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": request_id,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }


HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


async def test_the_official_client_finds_the_tools_and_uses_them(tmp_path: Path) -> None:
    async with a_brain(tmp_path) as brain, brain.served() as (url, desk), Client(url) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["bash", "read", "write", "ls", "say", "ask"]
        assert all(tool.description and tool.input_schema["type"] == "object" for tool in tools)
        bash = next(tool for tool in tools if tool.name == "bash")
        assert bash.input_schema["required"] == ["command"]
        assert text_of(await client.call_tool("bash", {"command": "echo"})) == "exit code 0\nstdout:\necho"
        await client.call_tool("write", {"path": "/workspace/a", "content": "b" * 1_000_000})
        assert text_of(await client.call_tool("ls")) == "a (1000000 bytes)"
        wrong = await client.call_tool("read", {"path": "/none"})
        assert wrong.is_error
        assert not (await client.call_tool("say", {"text": "hello"})).is_error
        assert not (await client.call_tool("ask", {"text": "what?"})).is_error
        assert desk.asked
    assert brain.log.types[-2:] == ["agent.message", "agent.message"]


async def test_many_calls_at_once_are_each_answered(tmp_path: Path) -> None:
    async with a_brain(tmp_path) as brain, brain.served() as (url, _), Client(url) as client:
        commands = [f"echo {number}" for number in range(20)]
        answers = await asyncio.gather(*(client.call_tool("bash", {"command": each}) for each in commands))
        assert [text_of(answer).splitlines()[-1] for answer in answers] == commands
    assert len(brain.log.events) == 40


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
async def test_clients_of_earlier_versions_are_served_without_a_session(tmp_path: Path, version: str) -> None:
    begin = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        },
    }
    async with a_brain(tmp_path) as brain, brain.served() as (url, _), httpx.AsyncClient() as client:
        headers = {**HEADERS, "MCP-Protocol-Version": version}
        begun = await client.post(url, json=begin, headers=headers)
        assert begun.json()["result"]["protocolVersion"] == version
        assert "mcp-session-id" not in begun.headers
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await client.post(url, json=ready, headers=headers)).status_code == 202
        answer = await client.post(url, json=a_call("bash", command="x"), headers=headers)
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["result"]["content"][0]["text"].startswith("exit code 0")
        for method in ("GET", "DELETE"):
            assert (await client.request(method, url, headers=headers)).status_code == 405


async def test_a_request_that_is_sent_twice_is_carried_out_once(tmp_path: Path) -> None:
    async with a_brain(tmp_path) as brain, brain.served() as (url, _), httpx.AsyncClient() as client:
        answers = [await client.post(url, json=a_call("say", text="hi"), headers=HEADERS) for _ in range(3)]
        assert len({answer.text for answer in answers}) == 1
    assert brain.log.types == ["agent.message"]


async def test_others_get_nothing_and_the_brain_nothing_after_its_turn(tmp_path: Path) -> None:
    async with a_brain(tmp_path) as brain, httpx.AsyncClient() as client:
        async with brain.served() as (url, _):
            guess = url.replace(url.split("/")[-2], "A" * 43)
            assert (await client.post(guess, json=a_call("say", text="hi"))).status_code == 404
            brain.door.address = "10.231.9.9"
            assert (await client.post(url, json=a_call("say", text="hi"))).status_code == 404
            brain.door.address = brain.live.machine.address
            sandbox = brain.live.sandbox
            brain.live.sandbox = replace(sandbox, metadata={**sandbox.metadata, "oc.role": "hands"})
            assert (await client.post(url, json=a_call("say", text="hi"))).status_code == 404
            brain.live.sandbox = sandbox
        assert (await client.post(url, json=a_call("say", text="hi"), headers=HEADERS)).status_code == 404
    assert brain.log.events == []


async def test_a_call_in_flight_when_the_turn_ends_gets_an_answer_at_once(tmp_path: Path) -> None:
    running = asyncio.Event()

    async def hang(command: str, seconds: float) -> CommandResult:
        running.set()
        await asyncio.sleep(seconds)
        raise AssertionError

    async with a_brain(tmp_path) as brain, httpx.AsyncClient() as client:
        brain.hands = MemoryHands(hang)
        async with brain.served() as (url, _):
            request = client.post(url, json=a_call("bash", command="deploy"), headers=HEADERS)
            answering = asyncio.create_task(request)
            await running.wait()
        assert (await answering).json()["result"]["isError"] is True
    assert brain.log.events[-1].body["unknown"] is True


async def test_a_client_is_not_left_in_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_endpoint, "_SILENCE_SECONDS", 0.01)
    heard, go_on = asyncio.Event(), asyncio.Event()

    async def slow(command: str, seconds: float) -> CommandResult:
        await go_on.wait()
        return printed("there")

    async with a_brain(tmp_path) as brain, brain.served() as (url, _), httpx.AsyncClient() as client:
        brain.hands = MemoryHands(slow)
        call = client.stream("POST", url, json=a_call("bash", command="x"), headers=HEADERS)
        async with call as answer:
            pieces: list[bytes] = []
            async for piece in answer.aiter_bytes():
                pieces.append(piece)
                heard.set()
                go_on.set()
        assert answer.status_code == 200
        assert pieces[0].strip() == b""
        assert "there" in json.loads(b"".join(pieces))["result"]["content"][0]["text"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"[]",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":7}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash","arguments":[1]}}',
        b'{"jsonrpc":"2.0","id":{"a":1},"method":"tools/call","params":{"name":"bash"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
    ],
)
async def test_whatever_a_brain_sends_is_answered(tmp_path: Path, body: bytes) -> None:
    async with a_brain(tmp_path) as brain, brain.served() as (url, _), httpx.AsyncClient() as client:
        headers = {**HEADERS, "Content-Type": "application/json"}
        answer = await client.post(url, content=body, headers=headers, timeout=5)
        assert answer.status_code < 500
        sane = await client.post(url, json=a_call("bash", command="x"), headers=HEADERS)
        assert sane.json()["result"]["isError"] is False
    assert len(brain.log.events) == 2


async def test_a_request_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_endpoint, "_MAX_REQUEST_BYTES", 1000)
    async with a_brain(tmp_path) as brain, brain.served() as (url, _), httpx.AsyncClient() as client:
        answer = await client.post(url, content=b" " * 1001, headers=HEADERS)
        assert answer.status_code == 413
