"""The brain server as a process, with the scripted engine, through the server's own client."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from opencomputer.server.contracts.runtimes import BrainBusy, BrainFault, BrainLine, BrainRequest
from tests.support.brains import BrainProcess, brain_process, host_command, host_environment
from tests.support.tool_server import ToolServer, serve_tools

pytestmark = pytest.mark.anyio


@pytest.fixture
def tools() -> Generator[ToolServer]:
    with serve_tools() as served:
        yield served


@pytest.fixture
async def process(tmp_path: Path) -> AsyncGenerator[BrainProcess]:
    async with brain_process(host_command("scripted"), host_environment(), tmp_path / "log") as started:
        yield started


def request(tools: ToolServer, folder: Path, model: str, *said: str, turn: str = "trn_1") -> BrainRequest:
    return BrainRequest(
        turn_id=turn,
        input=said or ("hello",),
        model=f"scripted/{model}",
        system_prompt="Be brief.",
        mcp_endpoint=tools.url,
        resume=False,
        state_dir=str(folder / "state"),
    )


def ending(lines: list[BrainLine]) -> object:
    assert [line.kind for line in lines].count("done") == 1
    return lines[-1].message["reason"]


async def test_what_was_said_comes_back_through_the_tools(
    process: BrainProcess, tools: ToolServer, tmp_path: Path
) -> None:
    lines = await process.turn(request(tools, tmp_path, "echo", "one", "two"))
    assert tools.said() == ["one\ntwo"]
    assert [line.kind for line in lines] == ["text", "tool_use", "tool_result", "result", "done"]
    assert ending(lines) == "quiescent"


async def test_a_question_waits_for_the_next_turn(
    process: BrainProcess, tools: ToolServer, tmp_path: Path
) -> None:
    first = await process.turn(request(tools, tmp_path, "ask-then-echo"))
    assert ending(first) == "awaiting_input"
    second = await process.turn(request(tools, tmp_path, "ask-then-echo", "blue", turn="trn_2"))
    assert ending(second) == "quiescent"
    assert (tools.said("ask"), tools.said()) == (["What should I say?"], ["blue"])


async def test_results_of_tools_can_be_used(process: BrainProcess, tools: ToolServer, tmp_path: Path) -> None:
    tools.tools["bash"] = lambda arguments: f"ran {arguments['command']}"
    await process.turn(request(tools, tmp_path, "run", "uname"))
    assert tools.said() == ["ran uname"]


async def test_a_program_is_done_step_by_step(
    process: BrainProcess, tools: ToolServer, tmp_path: Path
) -> None:
    steps = [
        {"think": "Hm."},
        {"tool": "write", "arguments": {"path": "/workspace/{{turn}}", "content": "x"}},
        {"sleep": 0},
        {"say": "{{result}}"},
    ]
    lines = await process.turn(request(tools, tmp_path, "program", json.dumps(steps)))
    assert tools.calls[0] == ("write", {"path": "/workspace/trn_1", "content": "x"})
    assert tools.said() == ["ok"]
    assert lines[0] == BrainLine("thinking", {"text": "Hm."})


@pytest.mark.parametrize("model", ["unheard-of", "program"])
async def test_what_cannot_be_done_is_an_error_of_the_turn(
    process: BrainProcess, tools: ToolServer, tmp_path: Path, model: str
) -> None:
    lines = await process.turn(request(tools, tmp_path, model))
    assert ending(lines) == "error"
    assert lines[-1].message["error"]["code"] == "invalid_program"


async def test_steps_beyond_the_cap_are_left_undone(
    process: BrainProcess, tools: ToolServer, tmp_path: Path
) -> None:
    lines = await process.turn(request(tools, tmp_path, "exceed-steps"))
    assert len([line for line in lines if line.kind == "text"]) == 24
    assert lines[-2].message["stopped"] == "max_steps"


async def test_only_one_request_at_a_time_and_leaving_gives_it_up(
    process: BrainProcess, tools: ToolServer, tmp_path: Path
) -> None:
    hanging = request(tools, tmp_path, "hang")
    async with process.brain.turn(hanging) as lines:
        assert (await anext(lines)).kind == "text"
        assert (await process.brain.health()).busy
        with pytest.raises(BrainBusy):
            await process.turn(request(tools, tmp_path, "echo"))
    async with asyncio.timeout(60):
        while (await process.brain.health()).busy:
            pass
    assert ending(await process.turn(request(tools, tmp_path, "echo"))) == "quiescent"


async def test_leaving_breaks_a_tool_call_off(
    process: BrainProcess, tools: ToolServer, tmp_path: Path
) -> None:
    released = threading.Event()
    tools.tools["bash"] = lambda _: str(released.wait(20))
    async with process.brain.turn(request(tools, tmp_path, "run")):
        assert await asyncio.to_thread(tools.called.wait, 20)
    async with asyncio.timeout(60):
        while (await process.brain.health()).busy:
            pass
    released.set()
    assert tools.said() == []


async def test_a_crash_is_a_fault_and_the_turn_can_be_run_again(tools: ToolServer, tmp_path: Path) -> None:
    async with brain_process(host_command("scripted"), host_environment(), tmp_path / "log") as first:
        with pytest.raises(BrainFault):
            await first.turn(request(tools, tmp_path, "crash-once", "again"))
        assert first.process.wait(10) == 70
        with pytest.raises(BrainFault):
            await first.brain.health()
    async with brain_process(host_command("scripted"), host_environment(), tmp_path / "log") as second:
        assert ending(await second.turn(request(tools, tmp_path, "crash-once", "again"))) == "quiescent"
        await second.turn(request(tools, tmp_path, "recall", "and more", turn="trn_2"))
    assert tools.said() == ["again", "again\nand more"]


async def test_tools_that_cannot_be_reached_are_a_crash(process: BrainProcess, tmp_path: Path) -> None:
    nowhere = ToolServer(url="http://127.0.0.1:9/mcp")
    with pytest.raises(BrainFault):
        await process.turn(request(nowhere, tmp_path, "echo"))
    assert not (await process.brain.health()).busy


async def test_a_bad_request_is_refused_with_a_reason(
    process: BrainProcess, tools: ToolServer, tmp_path: Path
) -> None:
    bad = request(tools, Path("relative"), "echo")
    with pytest.raises(BrainFault, match="state_dir must be an absolute path"):
        await process.turn(bad)
