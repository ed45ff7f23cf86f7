"""The Codex brain in the base template, with the real engine. Only the model is a script."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Generator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from opencomputer.inside.brains.codex import PROGRAM
from opencomputer.server.contracts.runtimes import BrainLine, BrainRequest
from opencomputer.server.models.script import parse_script
from opencomputer.server.models.scripted import ScriptedModel
from opencomputer.server.runtimes.codex.runtime import CodexRuntime
from opencomputer.server.runtimes.launching import brain_program
from tests.support.brains import PORT, BrainProcess, brain_process
from tests.support.engine_script import rule, tool
from tests.support.model_server import ModelServer, serve_model
from tests.support.real_clock import RealClock
from tests.support.template_chroot import template_command, why_no_template_program
from tests.support.tool_server import ToolServer, serve_tools

MISSING = why_no_template_program(PROGRAM)
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]


SCRIPT = {
    "rules": [
        rule("look", [{"text": "I look."}, tool("bash", command="uname")], [tool("say", text="{{result}}!")]),
        rule("ask me", [tool("ask", text="Which colour?")]),
        rule("loop", [tool("bash", command="true")], repeat=True),
        rule("refuse", [{"error": {"status": 400, "message": "not today"}}]),
        rule("what", [{"text": "{{prompts}}"}]),
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


def started(folder: Path) -> AbstractAsyncContextManager[BrainProcess]:
    # The machine's own interpreter is not in the template.
    argv = brain_program("/usr/bin/python3", "codex").argv
    return brain_process(template_command(folder, PORT, argv), os.environ, folder / "log")


def request(model: ModelServer, tools: ToolServer, *said: str, max_turns: int = 24) -> BrainRequest:
    return BrainRequest(
        turn_id="trn_1",
        input=said,
        model="openai/gpt-5-codex",
        system_prompt='Be "brief".\nÜ.',
        mcp_endpoint=tools.url,
        resume=False,
        max_turns=max_turns,
        endpoint_profile={"mode": "gateway", "base_url": f"{model.url}/v1", "auth_env": "OPENAI_API_KEY"},
    )


def narrated(lines: Sequence[BrainLine]) -> Sequence[str]:
    translator = CodexRuntime().translator()
    return [text for line in lines if (text := translator.translate(line).text)]


async def test_a_conversation_with_tools_goes_on_after_the_brain_was_killed(
    model: ModelServer, tools: ToolServer, tmp_path: Path
) -> None:
    async with started(tmp_path) as first:
        lines = await first.turn(request(model, tools, "look around"))
    assert tools.said() == ["Linux!"]
    assert lines[-1].message == {"reason": "quiescent"}
    async with started(tmp_path) as second:
        assert narrated(await second.turn(request(model, tools, "what", "now"))) == [
            "1. look around\n2. what\n\nnow"
        ]
        asked = await second.turn(request(model, tools, "ask me"))
        assert asked[-1].message == {"reason": "awaiting_input"}
        capped = await second.turn(request(model, tools, "loop", max_turns=3))
        assert (capped[-2].kind, capped[-1].message["reason"]) == ("oc.step_cap", "quiescent")
        refused = await second.turn(request(model, tools, "refuse"))
        assert refused[-1].message["reason"] == "error"
    assert b'Be \\"brief\\".\\n' in model.requests[-1]


async def test_leaving_stops_the_engine_and_the_next_request_goes_on(
    model: ModelServer, tools: ToolServer, tmp_path: Path
) -> None:
    released = threading.Event()
    tools.tools["bash"] = lambda _: str(released.wait(20))
    async with started(tmp_path) as brain:
        async with brain.brain.turn(request(model, tools, "look around")):
            assert await asyncio.to_thread(tools.called.wait, 20)
        async with asyncio.timeout(60):
            while (await brain.brain.health()).busy:
                pass
        released.set()
        lines = await brain.turn(request(model, tools, "what now"))
    assert narrated(lines) == ["1. look around\n2. what now"]
    assert tools.said() == []
