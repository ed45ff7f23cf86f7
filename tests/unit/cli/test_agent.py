"""`oc agent run` and `attach`, and how events look."""

from __future__ import annotations

import json
import signal
from typing import cast

import pytest

from opencomputer.cli.agent_view import lines_of
from opencomputer.sdk.agent_events import AgentEvent
from opencomputer.wire import frames
from tests.support.fake_node import FakeNode
from tests.support.fake_node.node import FakeSandbox
from tests.support.fake_node.sessions import AgentScript
from tests.unit.cli.conftest import Oc
from tests.unit.cli.process import OnTerminal, finish, start

SANDBOX = "sb-00000001"

TURN: list[dict[str, object]] = [
    {"type": "system", "subtype": "init", "model": "claude-x", "cwd": "/home/sandbox"},
    {
        "type": "assistant",
        "message": {
            "content": [
                {"type": "text", "text": "I will look.\nNow."},
                {"type": "tool_use", "name": "Bash", "input": {"command": "ls -l\nrm x", "description": "d"}},
            ]
        },
    },
    {
        "type": "user",
        "message": {
            "content": [{"type": "tool_result", "content": "\n".join(f"line {n}" for n in range(9))}]
        },
    },
    {"type": "brand_new", "x": 1},
    {"type": "result", "subtype": "success", "duration_ms": 2345, "num_turns": 2, "total_cost_usd": 0.0123},
    {"type": "turn_complete", "claude_session_id": "c0ffee"},
]

SHOWN = """claude-x · /home/sandbox
I will look.
Now.
● Bash  ls -l rm x
  line 0
  line 1
  line 2
  line 3
  line 4
  line 5
  … 3 more lines
✓ done in 2.3 s, 2 turns, $0.0123
"""


def agent_of(inside: FakeSandbox) -> AgentScript:
    (agent,) = inside.sessions.values()
    return cast(AgentScript, agent)


def test_run_shows_the_turn_and_ends_the_agent(oc: Oc, node: FakeNode, inside: FakeSandbox) -> None:
    node.agent_answer = TURN
    outcome = oc(
        "agent", "run", SANDBOX, "do it", "--model", "m", "--max-turns", "3", "--allowed-tools", "Bash"
    )
    assert (outcome.exit_code, outcome.stdout) == (0, SHOWN)
    assert outcome.stderr == "Go on with --resume c0ffee.\n"
    assert node.requests("POST", "/agent")[0].body == {
        "prompt": "do it",
        "model": "m",
        "maxTurns": 3,
        "allowedTools": ["Bash"],
    }
    assert agent_of(inside).killed_with == [15]


def test_keep_leaves_the_agent_running(oc: Oc, node: FakeNode, inside: FakeSandbox) -> None:
    node.agent_answer = TURN
    oc("agent", "run", SANDBOX, "do it", "--keep")
    assert agent_of(inside).exit_code is None


def test_as_json_each_event_is_a_line(oc: Oc, node: FakeNode, inside: FakeSandbox) -> None:
    node.agent_answer = TURN
    outcome = oc("agent", "run", SANDBOX, "do it", "--json")
    assert [json.loads(line) for line in outcome.stdout.splitlines()] == [{"type": "ready"}, *TURN]


def test_a_turn_that_fails_is_exit_code_1(oc: Oc, node: FakeNode, inside: FakeSandbox) -> None:
    node.agent_answer = [{"type": "error", "message": "no model \x1b[31mhere"}]
    outcome = oc("agent", "run", SANDBOX, "do it")
    assert (outcome.exit_code, outcome.stdout) == (1, "Error: no model  [31mhere\n")


def test_the_first_interrupt_stops_the_turn(node: FakeNode, inside: FakeSandbox) -> None:
    node.agent_answer = TURN[:1]
    process = start(node, "agent", "run", SANDBOX, "long work")
    assert process.stdout
    assert process.stdout.readline() == b"claude-x \xc2\xb7 /home/sandbox\n"
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (code, out) == (130, b"Interrupted.\n")
    assert b"once more leaves it working" in err
    assert agent_of(inside).killed_with == [15]


def test_the_second_interrupt_leaves_the_agent_working(node: FakeNode, inside: FakeSandbox) -> None:
    node.agent_answer = TURN[:1]
    process = start(node, "agent", "run", SANDBOX, "stubborn work")
    assert process.stdout
    assert process.stderr
    process.stdout.readline()
    agent = agent_of(inside)
    agent.deaf = True
    process.send_signal(signal.SIGINT)
    assert b"Interrupting" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 0
    assert f"oc agent attach {SANDBOX} {agent.session_id}".encode() in err
    assert agent.killed_with == []


def test_attach_shows_the_history_and_ends_with_the_agent(node: FakeNode, inside: FakeSandbox) -> None:
    agent = AgentScript("0000a001", TURN)
    inside.sessions["0000a001"] = agent
    node.do(agent.command, {"type": "prompt", "text": "earlier"})
    process = start(node, "agent", "attach", SANDBOX, "0000a001")
    assert process.stdout
    shown = [process.stdout.readline() for _ in SHOWN.splitlines()]
    assert b"".join(shown).decode() == SHOWN
    node.do(agent.exit, 3)
    assert finish(process)[0] == 3


class TellsOfTurns(AgentScript):
    """Also says in its log when a turn is over: what reads that has seen the end of the turn."""

    def turn_end(self, code: int) -> None:
        super().turn_end(code)
        self.say(frames.STDERR, b"the turn is over\n")


def test_on_a_terminal_lines_are_prompts_and_one_interrupt_leaves_an_idle_agent(
    node: FakeNode, inside: FakeSandbox
) -> None:
    agent = TellsOfTurns("0000a001", [{"type": "assistant", "message": {"content": "heard"}}, TURN[-1]])
    inside.sessions["0000a001"] = agent
    with OnTerminal(node, "agent", "attach", SANDBOX, "0000a001") as console:
        console.type(b"do more\n")
        console.read_until(b"the turn is over")
        console.type(b"\x03")
        assert console.wait() == 0
        assert b"It goes on." in console.seen
    assert [command["text"] for command in agent.commands] == ["do more"]
    assert agent.exit_code is None


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (AgentEvent("ready"), []),
        (AgentEvent("turn_complete", {"claude_session_id": "x"}), []),
        (AgentEvent("assistant", {"message": None}), []),
        (AgentEvent("assistant", {"message": {"content": [7, {"type": "image"}]}}), []),
        (AgentEvent("assistant", {"message": {"content": [{"type": "thinking", "thinking": "hm"}]}}), ["hm"]),
        (
            AgentEvent(
                "assistant", {"message": {"content": [{"type": "tool_use", "name": "X", "input": {}}]}}
            ),
            ["● X"],
        ),
        (
            AgentEvent(
                "assistant", {"message": {"content": [{"type": "tool_use", "name": "X", "input": {"n": 1}}]}}
            ),
            ['● X  {"n": 1}'],
        ),
        (
            AgentEvent(
                "user", {"message": {"content": [{"type": "tool_result", "content": [{"text": "a"}]}]}}
            ),
            ["  a"],
        ),
        (
            AgentEvent("result", {"subtype": "error_max_turns", "num_turns": 1}),
            ["✗ error_max_turns in 1 turn"],
        ),
        (AgentEvent("result"), ["✓ done"]),
        (AgentEvent("interrupted"), ["Interrupted."]),
        (AgentEvent("error", {}), ["Error: unknown"]),
    ],
)
def test_events_are_shown_in_few_words(event: AgentEvent, expected: list[str]) -> None:
    assert [line.content for line in lines_of(event)] == expected


def test_long_tool_calls_are_cut() -> None:
    block = {"type": "tool_use", "name": "Bash", "input": {"command": "x" * 500}}
    (line,) = lines_of(AgentEvent("assistant", {"message": {"content": [block]}}))
    assert len(line.content) < 140
    assert line.content.endswith("…")
