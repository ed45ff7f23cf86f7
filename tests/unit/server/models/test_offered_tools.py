"""Scripts for an engine's own tools, where there are only a session's."""

from __future__ import annotations

from typing import Any

import pytest

from opencomputer.server.models.conversation import read_conversation
from opencomputer.server.models.offered_tools import OfferedTools
from opencomputer.server.models.script import Text, ToolUse, load_script
from opencomputer.server.models.scripted import choose_steps
from tests.unit.server.models.asking import messages

MESSAGES_TOOLS: list[dict[str, Any]] = [{"name": f"mcp__oc__{name}"} for name in ("bash", "write", "say")]
RESPONSES_TOOLS: list[dict[str, Any]] = [
    {"type": "namespace", "name": "mcp__oc", "tools": [{"name": "bash"}, {"name": "write"}, {"name": "say"}]},
    {"type": "function", "name": "update_plan"},
]


@pytest.mark.parametrize("tools", [MESSAGES_TOOLS, RESPONSES_TOOLS])
def test_calls_become_calls_of_the_sessions_tools(tools: list[dict[str, Any]]) -> None:
    offered = OfferedTools.of({"tools": tools})
    assert offered.fitted(
        (
            Text("so"),
            ToolUse("Bash", {"command": "true", "description": "nothing"}),
            ToolUse("Write", {"file_path": "/x", "content": "y"}),
            ToolUse("mcp__oc__say", {"text": "z"}),
            ToolUse("Read", {"file_path": "/x"}),
        )
    ) == (
        Text("so"),
        ToolUse("mcp__oc__bash", {"command": "true"}),
        ToolUse("mcp__oc__write", {"path": "/x", "content": "y"}),
        ToolUse("mcp__oc__say", {"text": "z"}),
        ToolUse("Read", {"file_path": "/x"}),
    )


@pytest.mark.parametrize("names", [[], ["Bash"], ["Bash", "mcp__oc__bash"]])
def test_an_engine_with_tools_of_its_own_uses_them(names: list[str]) -> None:
    offered = OfferedTools.of({"tools": [{"name": name} for name in names]})
    steps = (ToolUse("Bash", {"command": "true"}),)
    assert offered.fitted(steps) == steps
    conversation = read_conversation(messages("x"))
    assert offered.fit(conversation) == conversation


def test_the_script_that_comes_with_the_server_works_in_sessions() -> None:
    body = messages("Write fizzbuzz with tests", tools=MESSAGES_TOOLS)
    call = choose_steps(load_script(None), body)[-1]
    assert isinstance(call, ToolUse)
    assert (call.name, call.input["path"]) == ("mcp__oc__write", "/workspace/fizzbuzz.py")
