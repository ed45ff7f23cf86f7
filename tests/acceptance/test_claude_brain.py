"""The Claude brain in the base template, with the real SDK and engine. Only the model is a script."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from opencomputer.server.contracts.runtimes import STATE_FOLDER, BrainLine, BrainRequest
from opencomputer.server.models.script import parse_script
from opencomputer.server.models.scripted import ScriptedModel
from opencomputer.server.runtimes.claude.runtime import SKILLS_FOLDER, ClaudeRuntime
from tests.support.brains import PORT, BrainProcess, brain_process
from tests.support.engine_script import rule, tool
from tests.support.model_server import ModelServer, serve_model
from tests.support.real_clock import RealClock
from tests.support.template_chroot import template_command, why_no_template_agent
from tests.support.tool_server import ToolServer, serve_tools
from tests.unit.server.runtimes.test_scripted import AGENT

MISSING = why_no_template_agent()
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]

SKILL = b"---\nname: greeting\ndescription: How to greet.\n---\nSay ahoy.\n"


SCRIPT = {
    "rules": [
        rule("look", [{"text": "I look."}, tool("bash", command="uname")], [tool("say", text="{{result}}!")]),
        rule("ask me", [tool("ask", text="Which colour?")]),
        rule("loop", [tool("bash", command="true")], repeat=True),
        rule("key", [{"error": {"status": 401, "message": "no such key"}}]),
        rule("what", [{"text": "{{prompts}}"}]),
        # The engine gives the model a skill's text as if the user had said it.
        rule("say ahoy", [{"text": "ahoy"}]),
        rule("greet", [{"tool": "Skill", "input": {"skill": "greeting"}}]),
    ],
    "otherwise": [[{"text": "echo: {{prompt}}"}]],
}


@pytest.fixture(scope="module")
def model() -> Generator[ModelServer]:
    with serve_model(ScriptedModel(parse_script(SCRIPT), RealClock())) as server:
        yield server


@pytest.fixture
def tools() -> Generator[ToolServer]:
    with serve_tools(bash=lambda _: "Linux") as served:
        yield served


def started(folder: Path, **environment: str) -> AbstractAsyncContextManager[BrainProcess]:
    argv = ClaudeRuntime().program(AGENT, []).argv
    command = template_command(folder, {**PORT, **environment}, argv)
    return brain_process(command, os.environ, folder / "log")


@pytest.fixture
async def brain(tmp_path: Path) -> AsyncGenerator[BrainProcess]:
    async with started(tmp_path) as process:
        yield process


def request(model: ModelServer, tools: ToolServer, *said: str, max_turns: int = 24) -> BrainRequest:
    return BrainRequest(
        turn_id="trn_1",
        input=said,
        model="anthropic/claude-sonnet-5",
        system_prompt="Be brief.",
        mcp_endpoint=tools.url,
        resume=False,
        max_turns=max_turns,
        endpoint_profile={"mode": "gateway", "base_url": model.url, "auth_env": "ANTHROPIC_API_KEY"},
    )


def narrated(lines: Sequence[BrainLine]) -> Sequence[str]:
    translator = ClaudeRuntime().translator()
    return [text for line in lines if (text := translator.translate(line).text)]


async def test_a_conversation_with_tools_goes_on_after_the_engine_was_killed(
    model: ModelServer, tmp_path: Path
) -> None:
    with serve_tools(bash=lambda _: "Linux") as first_tools:
        async with started(tmp_path) as first:
            lines = await first.turn(request(model, first_tools, "look around"))
    assert first_tools.said() == ["Linux!"]
    assert lines[-1].message == {"reason": "quiescent"}
    opening = next(line.message for line in lines if line.message.get("subtype") == "init")
    assert sorted(opening["tools"]) == [
        f"mcp__oc__{name}" for name in ("ask", "bash", "read", "say", "write")
    ]
    with serve_tools() as other_tools:
        async with started(tmp_path) as second:
            assert narrated(await second.turn(request(model, other_tools, "what", "now"))) == [
                "1. look around\n2. what\n\nnow"
            ]
            # Warm now, and with tools at yet another place.
            with serve_tools(bash=lambda _: "Plan 9") as last_tools:
                await second.turn(request(model, last_tools, "look again"))
    assert (other_tools.said(), last_tools.said()) == ([], ["Plan 9!"])


async def test_an_engine_that_was_started_beforehand_is_told_everything_it_needs(
    model: ModelServer, tools: ToolServer, tmp_path: Path
) -> None:
    asked_before = len(model.requests)
    async with started(tmp_path, ANTHROPIC_BASE_URL=model.url) as brain:
        lines = await brain.turn(replace(request(model, tools, "look"), model="anthropic/claude-opus-4-8"))
        assert narrated(await brain.turn(request(model, tools, "what"))) == ["1. look\n2. what"]
    assert (tmp_path / "log").read_text().count("\n") == 1
    assert (tools.said(), lines[-1].message) == (["Linux!"], {"reason": "quiescent"})
    # There are side calls of the engine's own before.
    asked = [json.loads(body) for body in model.requests[asked_before:]]
    first = next(body for body in asked if body.get("tools"))
    assert first["model"] == "claude-opus-4-8"
    assert "Be brief." in [block["text"] for block in first["system"]]


async def test_how_requests_end(brain: BrainProcess, model: ModelServer, tools: ToolServer) -> None:
    asked = await brain.turn(request(model, tools, "ask me"))
    assert asked[-1].message == {"reason": "awaiting_input"}
    capped = await brain.turn(request(model, tools, "loop", max_turns=3))
    assert (capped[-2].message["subtype"], capped[-1].message["reason"]) == ("error_max_turns", "quiescent")
    # The engine itself would try for minutes.
    rejected = await brain.turn(request(model, tools, "key"))
    assert (rejected[-2].message["error_status"], rejected[-1].message["reason"]) == (401, "error")
    assert narrated(await brain.turn(request(model, tools, "still there?"))) == ["echo: still there?"]


async def test_leaving_stops_the_engine_and_the_next_request_goes_on(
    brain: BrainProcess, model: ModelServer, tools: ToolServer
) -> None:
    released = threading.Event()
    tools.tools["bash"] = lambda _: str(released.wait(20))
    async with brain.brain.turn(request(model, tools, "look around")):
        assert await asyncio.to_thread(tools.called.wait, 20)
    async with asyncio.timeout(60):
        while (await brain.brain.health()).busy:
            pass
    released.set()
    lines = await brain.turn(request(model, tools, "what now"))
    assert narrated(lines) == ["1. look around\n2. what now"]
    assert tools.said() == []


async def test_skills_are_known_to_the_model_and_can_be_used(
    model: ModelServer, tools: ToolServer, tmp_path: Path
) -> None:
    home = tmp_path / "upper" / SKILLS_FOLDER[1:]
    (home / "greeting").mkdir(parents=True)
    (home / "greeting" / "SKILL.md").write_bytes(SKILL)
    for folder in (home / "greeting", *home.parents):
        if folder.is_relative_to(tmp_path / "upper" / STATE_FOLDER[1:].partition("/.oc")[0]):
            os.chown(folder, 1000, 1000)
    os.chown(home, 1000, 1000)
    async with started(tmp_path) as process:
        lines = await process.turn(request(model, tools, "greet them"))
    assert narrated(lines) == ["ahoy"]
    assert any(b"How to greet." in body for body in model.requests)
    assert any(b"Say ahoy." in body for body in model.requests)
