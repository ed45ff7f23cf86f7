"""The agent runner of the base template with the real SDK and the real engine. Only the model is a script."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from opencomputer.server.models.script import load_script, parse_script
from opencomputer.server.models.scripted import ScriptedModel
from tests.support import calculator_mcp
from tests.support.model_server import ModelServer, serve_model
from tests.support.real_clock import RealClock
from tests.support.template_chroot import HOME, AgentProcess, Event, template_agent, why_no_template_agent

MISSING = why_no_template_agent()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


def bash(command: str) -> dict[str, Any]:
    return {"tool": "Bash", "input": {"command": command}}


def rule(words: str, *replies: list[dict[str, Any]], repeat: bool = False) -> dict[str, Any]:
    return {"when": {"contains": words}, "replies": list(replies), "repeat": repeat}


LONG_COMMAND = bash("for i in $(seq 600); do echo $i > tick; sleep 0.1; done")
ADDITION = {"tool": "mcp__calculator__add", "input": {"a": 2, "b": 40}}
SCRIPT = {
    "rules": [
        rule("hang", [{"text": "begun"}, {"hang": True}]),
        rule("long command", [LONG_COMMAND], [{"text": "too late"}]),
        rule("refuse", [{"error": {"status": 400, "message": "not today"}}]),
        rule("crash", [bash("kill -9 $PPID")]),
        rule("again and again", [bash("true")], repeat=True),
        rule("where", [bash("pwd")], [{"text": "{{result}}"}]),
        rule("what", [{"text": "{{prompts}}"}]),
        rule("add", [ADDITION], [{"text": "sum: {{result}}"}]),
    ],
    "otherwise": [[{"text": "echo: {{prompt}}"}]],
}

Start = Callable[[], AbstractContextManager[AgentProcess]]


@pytest.fixture(scope="module")
def model() -> Generator[ModelServer]:
    with serve_model(ScriptedModel(parse_script(SCRIPT), RealClock())) as server:
        yield server


@pytest.fixture
def start(model: ModelServer, tmp_path: Path) -> Start:
    variables = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "placeholder"}
    return lambda: template_agent(tmp_path, variables)


def kinds(events: list[Event]) -> list[str]:
    return [event["type"] for event in events]


def answer(events: list[Event]) -> str:
    return next(event["result"] for event in events if event["type"] == "result")


def opening(events: list[Event]) -> Event:
    return next(event for event in events if event["type"] == "system" and event["subtype"] == "init")


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not appear"
        time.sleep(0.01)


def test_a_prompted_session_runs_from_ready_to_turn_complete(start: Start) -> None:
    """Order and content of the events are those of the contract, and standard error is quiet."""
    with start() as agent:
        agent.write("configure", maxTurns=5)
        events = agent.turn("hello")
        assert kinds(events) == ["ready", "configured", "system", "assistant", "result", "turn_complete"]
        session_id = events[-1]["claude_session_id"]
        assert {event["session_id"] for event in events[2:-1]} == {session_id}
        assert events[3]["message"]["content"][0]["text"] == "echo: hello"
        assert {"uuid", "usage", "total_cost_usd", "num_turns"} <= set(events[4])
        assert (agent.end(), agent.log) == (0, b"")


def test_the_defaults_are_those_of_the_contract(start: Start) -> None:
    """Model, permissions and folder, as the engine itself reports them."""
    with start() as agent:
        began = opening(agent.turn("hello"))
    reported = (began["model"], began["permissionMode"], began["cwd"])
    assert reported == ("claude-sonnet-4-20250514", "bypassPermissions", HOME)


def test_the_demonstration_writes_a_program_and_runs_its_tests(tmp_path: Path) -> None:
    """With the script that comes along: two files in the user's home, and their tests pass."""
    with serve_model(ScriptedModel(load_script(None), RealClock())) as model:
        variables = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "placeholder"}
        with template_agent(tmp_path, variables) as agent:
            events = agent.turn("Write fizzbuzz.py with tests and run them")
    used = [
        block["name"]
        for event in events
        if event["type"] == "assistant"
        for block in event["message"]["content"]
        if block["type"] == "tool_use"
    ]
    assert used == ["Write", "Write", "Bash"]
    assert "Ran 4 tests" in answer(events)
    assert (tmp_path / "upper" / HOME[1:] / "fizzbuzz.py").stat().st_uid == 1000


def test_follow_ups_and_interrupts_share_one_conversation(start: Start) -> None:
    """An interrupt reaches an answer that hangs and a command that runs, and the session goes on."""
    with start() as agent:
        first = agent.turn("one")
        agent.write("prompt", text="please hang")
        agent.until("system")
        agent.write("interrupt")
        assert kinds(agent.until("interrupted"))[-2:] == ["result", "interrupted"]
        agent.write("prompt", text="a long command")
        agent.until("assistant")
        agent.write("interrupt")
        agent.until("interrupted")
        last = agent.turn("what have I said?")
        assert answer(last).splitlines() == [
            "1. one",
            "2. please hang",
            "3. a long command",
            "4. what have I said?",
        ]
        assert last[-1]["claude_session_id"] == first[-1]["claude_session_id"]
        agent.write("interrupt")
        assert kinds(agent.until("interrupted")) == ["interrupted"]


def test_an_interrupted_command_is_really_ended(start: Start, tmp_path: Path) -> None:
    """It does not go on behind the user's back."""
    tick = tmp_path / "upper" / HOME[1:] / "tick"
    with start() as agent:
        agent.write("prompt", text="a long command")
        agent.until("assistant")
        wait_for(tick)
        agent.write("interrupt")
        agent.until("interrupted")
        seen = tick.read_text()
        for _ in range(5):
            agent.turn("where are we?")
        assert tick.read_text() == seen


def test_prompts_during_a_turn_are_queued(start: Start) -> None:
    """Each gets its own turn, in order, and the count of those that wait is told."""
    with start() as agent:
        for text in ("one", "two", "three"):
            agent.write("prompt", text=text)
        ends: list[Event] = []
        answers: list[str] = []
        for _ in range(3):
            events = agent.until("turn_complete")
            answers.append(answer(events))
            ends.append(events[-1])
    assert answers == ["echo: one", "echo: two", "echo: three"]
    assert [end.get("pending_prompts", 0) for end in ends] == [2, 1, 0]


def test_a_configuration_between_turns_keeps_the_conversation(start: Start) -> None:
    """Tools, folder, prompt and permissions change; what was said is still known."""
    with start() as agent:
        agent.turn("one")
        agent.write("configure", permissionMode="plan")
        assert opening(agent.turn("two"))["permissionMode"] == "plan"
        agent.write(
            "configure", permissionMode="bypassPermissions", allowedTools=["Bash", "Read"], cwd="/tmp"
        )
        agent.write("configure", systemPrompt="Be terse.", maxTurns=4)
        events = agent.turn("where are we?")
        assert (opening(events)["tools"], opening(events)["cwd"]) == (["Bash", "Read"], "/tmp")
        assert answer(events) == "/tmp"
        assert "1. one" in answer(agent.turn("what have I said?"))


def test_a_conversation_is_resumed_by_its_id_in_a_new_process(start: Start) -> None:
    """From another folder, too. An unknown id begins a new conversation and says so on standard error."""
    with start() as agent:
        session_id = agent.turn("one")[-1]["claude_session_id"]
        assert agent.end() == 0
    with start() as agent:
        agent.write("configure", resume=session_id, cwd="/tmp")
        events = agent.turn("what have I said?")
        assert answer(events) == "1. one\n2. what have I said?"
        assert events[-1]["claude_session_id"] == session_id
        unknown = "11111111-2222-4333-8444-555555555555"
        events = agent.turn("what now?", resume=unknown)
        assert answer(events) == "1. what now?"
        assert agent.end() == 0
        assert unknown.encode() in agent.log


def test_tool_servers_run_inside(start: Start) -> None:
    """Their tools are called, and one that does not start is reported without stopping the others."""
    source = Path(calculator_mcp.__file__).read_text()
    servers: dict[str, Any] = {
        "calculator": {"command": "python3", "args": ["-c", source]},
        "broken": {"command": "/no/such/program"},
    }
    with start() as agent:
        agent.write("configure", mcpServers=servers)
        events = agent.turn("add, please")
        status = {server["name"]: server["status"] for server in opening(events)["mcp_servers"]}
        assert status == {"calculator": "connected", "broken": "failed"}
        assert answer(events) == "sum: 42"


def test_a_refusal_of_the_model_ends_the_turn_only(start: Start) -> None:
    """Told as an event and on standard error; the next turn works."""
    with start() as agent:
        events = agent.turn("refuse this")
        assert kinds(events)[-2:] == ["result", "error"]
        assert "not today" in events[-1]["message"]
        assert answer(agent.turn("hello")) == "echo: hello"
        assert agent.end() == 0
        assert b"not today" in agent.log


def test_a_turn_may_take_only_so_many_steps(start: Start) -> None:
    """`maxTurns` counts the steps of one prompt."""
    with start() as agent:
        agent.write("configure", maxTurns=2)
        events = agent.turn("again and again")
        assert (events[-2]["subtype"], events[-1]["type"]) == ("error_max_turns", "error")


def test_a_crash_of_the_engine_costs_one_turn_only(start: Start) -> None:
    """The next prompt finds the conversation where it was."""
    with start() as agent:
        agent.turn("one")
        assert agent.turn("crash")[-1]["message"] == "the agent engine ended with exit code -9"
        assert "1. one" in answer(agent.turn("what have I said?"))


def test_what_the_engine_does_not_accept_is_explained(start: Start) -> None:
    """With the engine's own words, and the next configuration mends it."""
    with start() as agent:
        agent.write("configure", permissionMode="frobnicate")
        assert "frobnicate" in agent.turn("hello")[-1]["message"]
        agent.write("configure", permissionMode=None, cwd="/no/such/folder")
        assert "/no/such/folder" in agent.turn("hello")[-1]["message"]
        agent.write("configure", cwd=None)
        assert agent.turn("hello")[-1]["type"] == "turn_complete"
        assert agent.end() == 0
        assert b"frobnicate" in agent.log


def test_without_a_credential_it_ends_at_once(tmp_path: Path) -> None:
    """One event and exit code 1."""
    with template_agent(tmp_path, {}) as agent:
        assert kinds(agent.until("error")) == ["error"]
        assert agent.end() == 1
