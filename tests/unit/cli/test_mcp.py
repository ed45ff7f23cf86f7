"""`oc mcp` as a client of the protocol sees it: the official one, in this process and over a real pipe."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest
from mcp import ClientSession
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import CallToolResult

from opencomputer.cli.installation import how_to_add
from opencomputer.cli.mcp import running, tools
from opencomputer.cli.mcp.sandboxes import Access, Sandboxes
from opencomputer.cli.mcp.server import server_for
from opencomputer.sdk.sandbox import Sandbox
from tests.support.fake_node import FakeNode, Rule
from tests.support.fake_node.node import FakeSandbox
from tests.unit.cli.conftest import Oc

pytestmark = pytest.mark.anyio

Connect = Callable[..., Any]
_MANY = {"create_sandbox", "list_sandboxes", "fork_sandbox", "kill_sandbox"}
_READING = {"list_sandboxes", "read_file", "list_files", "list_checkpoints"}
_DESTROYING = {"run_command", "write_file", "restore_checkpoint", "kill_sandbox"}


@asynccontextmanager
async def connected(node: FakeNode, **access: Any) -> AsyncGenerator[Client]:
    sandboxes = Sandboxes(Access(node.api_key, node.url, **access))
    async with Client(server_for(sandboxes)) as client:
        yield client


async def did(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


def words(result: CallToolResult) -> str:
    assert result.is_error
    (content,) = result.content
    assert content.type == "text"
    return content.text


async def test_tools_say_what_they_do_take_and_may_destroy(node: FakeNode) -> None:
    async with connected(node) as client:
        listed = (await client.list_tools()).tools
    assert len(listed) == 14
    for tool in listed:
        assert tool.title
        assert tool.description
        assert tool.annotations
        assert all(each.get("description") for each in tool.input_schema["properties"].values()), tool.name
        assert "context" not in tool.input_schema["properties"]
    hints = {tool.name: tool.annotations for tool in listed if tool.annotations}
    assert {name for name, hint in hints.items() if hint.read_only_hint} == _READING
    assert {name for name, hint in hints.items() if hint.destructive_hint} == _DESTROYING


async def test_a_sandbox_from_its_making_to_its_end(node: FakeNode) -> None:
    async with connected(node) as client:
        made = (await did(client, "create_sandbox", environment={"A": "1"}))["sandbox_id"]
        ran = await did(client, "run_command", command="cat; echo $A; echo no >&2; exit 3")
        assert ran == {"exit_code": 3, "stdout": "1\n", "stderr": "no\n"}
        await did(client, "write_file", path="/notes/a.txt", content="grün")
        assert (await did(client, "read_file", path="/notes/a.txt"))["content"] == "grün"
        listed = await did(client, "list_files", path="/notes")
        assert [(each["name"], each["bytes"]) for each in listed["entries"]] == [("a.txt", 5)]
        (copy,) = (await did(client, "fork_sandbox"))["sandbox_ids"]
        assert "Say which sandbox" in words(await client.call_tool("run_command", {"command": "true"}))
        everything = (await did(client, "list_sandboxes"))["sandboxes"]
        assert {each["sandbox_id"] for each in everything if each["made_here"]} == {made, copy}
        assert (await did(client, "kill_sandbox", sandbox_id=copy))["killed"]
        assert (await did(client, "hibernate_sandbox"))["status"] == "hibernated"
        assert (await did(client, "wake_sandbox"))["status"] == "running"
        assert "p3000" in (await did(client, "get_preview_url", port=3000))["url"]
    assert node.sandboxes[made].description["status"] == "running"


async def test_states_are_saved_listed_and_gone_back_to(node: FakeNode, inside: FakeSandbox) -> None:
    sandbox = str(inside.description["sandboxID"])
    async with connected(node) as client:
        saved = await did(client, "create_checkpoint", name="before", sandbox_id=sandbox)
        (listed,) = (await did(client, "list_checkpoints", sandbox_id=sandbox))["checkpoints"]
        assert listed["checkpoint_id"] == saved["checkpoint_id"]
        given = {"checkpoint_id": saved["checkpoint_id"], "sandbox_id": sandbox}
        assert (await did(client, "restore_checkpoint", **given))["restored"] == saved["checkpoint_id"]


async def test_of_long_output_and_files_only_a_part_is_handed_on(node: FakeNode, inside: FakeSandbox) -> None:
    inside.files["/long"] = b"x" * tools.MAX_FILE_BYTES + b"end"
    async with connected(node, only="sb-00000001") as client:
        ran = await did(client, "run_command", command="seq 1 200000")
        assert ran["stdout"].startswith("1\n2\n")
        assert ran["stdout"].endswith("\n200000\n")
        assert "bytes left out" in ran["stdout"]
        assert len(ran["stdout"]) < running.HEAD_BYTES + running.TAIL_BYTES + 100
        first = await did(client, "read_file", path="/long")
        assert first["next_offset"] == tools.MAX_FILE_BYTES
        rest = await did(client, "read_file", path="/long", offset=first["next_offset"])
        assert rest == {"path": "/long", "content": "end"}


async def test_no_character_of_a_long_file_is_torn_in_two(node: FakeNode, inside: FakeSandbox) -> None:
    inside.files["/long"] = b"x" * (tools.MAX_FILE_BYTES - 1) + "é☕".encode()
    async with connected(node, only="sb-00000001") as client:
        first = await did(client, "read_file", path="/long")
        rest = await did(client, "read_file", path="/long", offset=first["next_offset"])
    assert first["next_offset"] == tools.MAX_FILE_BYTES - 1
    assert rest["content"] == "é☕"


async def test_limited_to_one_sandbox_there_is_no_other(node: FakeNode, inside: FakeSandbox) -> None:
    node.add_sandbox()
    async with connected(node, only="sb-00000001", kill_at_exit=True) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert not names & _MANY
        assert (await did(client, "run_command", command="echo hi"))["stdout"] == "hi\n"
        refused = await client.call_tool("run_command", {"command": "true", "sandbox_id": "sb-00000002"})
        assert "limited to the sandbox sb-00000001" in words(refused)
    assert inside.description["status"] == "running"


@pytest.mark.parametrize(
    ("status", "code", "what_next"),
    [
        (410, "sandbox_stopped", "create_sandbox"),
        (404, "not_found", "list_sandboxes"),
        (401, "unauthorized", "oc login"),
        (429, "concurrency_limit", "Kill sandboxes"),
        (501, "not_supported", "another way"),
    ],
)
async def test_a_refusal_says_what_to_do_next(
    node: FakeNode, inside: FakeSandbox, status: int, code: str, what_next: str
) -> None:
    node.rules.append(Rule("POST", "/sandboxes/sb-00000001/exec", status, {"error": "No.", "code": code}))
    async with connected(node, only="sb-00000001") as client:
        text = words(await client.call_tool("run_command", {"command": "true"}))
    assert "No. " in text
    assert what_next in text


async def test_without_a_sandbox_or_a_server_that_is_said(node: FakeNode) -> None:
    async with connected(node) as client:
        assert "create_sandbox" in words(await client.call_tool("list_files", {}))
    async with Client(server_for(Sandboxes(Access("key", "http://127.0.0.1:9")))) as client:
        assert "cannot be reached" in words(await client.call_tool("create_sandbox", {}))


async def test_what_takes_long_reports_and_is_killed_when_it_is_cancelled(
    node: FakeNode, inside: FakeSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PROGRESS_SECONDS", 0.02)
    heard = asyncio.Event()

    async def heard_of(progress: float, total: float | None, message: str | None) -> None:
        if message == "working":
            heard.set()

    async with connected(node, only="sb-00000001") as client:
        given = {"command": "echo working; sleep 600"}
        calling = asyncio.create_task(client.call_tool("run_command", given, progress_callback=heard_of))
        async with asyncio.timeout(60):
            await heard.wait()
            calling.cancel()
            while not (kills := node.requests("POST", "/kill")):  # noqa: ASYNC110 - in another thread
                await asyncio.sleep(0.01)
    assert [request.body for request in kills] == [{"signal": 9}]


async def test_a_client_over_a_pipe_is_served_and_its_sandboxes_are_killed_when_it_leaves(
    node: FakeNode,
) -> None:
    command = ["-m", "opencomputer.cli", "mcp", "--kill-at-exit"]
    environment = {
        "OPENCOMPUTER_API_URL": node.url,
        "OPENCOMPUTER_API_KEY": node.api_key,
        "PATH": os.environ["PATH"],
    }
    parameters = StdioServerParameters(command=sys.executable, args=command, env=environment)
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        started = await session.initialize()
        assert started.server_info.name == "opencomputer"
        result = await session.call_tool("create_sandbox", {})
        assert result.structured_content is not None
        made = result.structured_content["sandbox_id"]
        assert node.sandboxes[made].description["status"] == "running"
    assert node.sandboxes[made].description["status"] == "stopped"


async def test_it_ends_when_it_is_told_to_though_its_client_is_still_there(node: FakeNode) -> None:
    command = [sys.executable, "-m", "opencomputer.cli", "mcp", "--kill-at-exit"]
    environment = os.environ | {"OPENCOMPUTER_API_URL": node.url, "OPENCOMPUTER_API_KEY": node.api_key}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, env=environment)
    assert process.stdin is not None
    assert process.stdout is not None
    said = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    asked: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": said},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "create_sandbox", "arguments": {}}},
    ]
    try:
        for each in asked:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n")
        async with asyncio.timeout(60):
            while json.loads(await process.stdout.readline()).get("id") != 2:
                pass
            process.terminate()
            assert await process.wait() == 128 + signal.SIGTERM
    finally:
        with suppress(ProcessLookupError):
            process.kill()
    assert [each.description["status"] for each in node.sandboxes.values()] == ["stopped"]


async def test_what_is_made_for_a_client_that_gives_up_meanwhile_is_killed(node: FakeNode) -> None:
    sandboxes = Sandboxes(Access(node.api_key, node.url))
    asked, answered = asyncio.Event(), asyncio.Event()

    async def making() -> list[Sandbox]:
        asked.set()
        await answered.wait()
        return [await Sandbox.create(api_key=node.api_key, api_url=node.url)]

    async with anyio.create_task_group() as group:
        group.start_soon(sandboxes.add, making())
        await asked.wait()
        group.cancel_scope.cancel()
        answered.set()
    assert [each.description["status"] for each in node.sandboxes.values()] == ["stopped"]
    assert sandboxes.made == []


def test_without_the_package_it_says_how_to_install_it(oc: Oc, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith("opencomputer.cli.mcp")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)  # pyright: ignore[reportArgumentType] - as import has it
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    outcome = oc("mcp")
    assert outcome.exit_code == 1
    assert how_to_add("mcp") in outcome.stderr
