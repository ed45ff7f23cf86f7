"""What the scripted runtime says and understands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from opencomputer.server.contracts.runtimes import BrainLine, Translated
from opencomputer.server.domain.sessions.events import Level, NewEvent
from opencomputer.server.domain.sessions.session import PinnedAgent, TurnError, Usage
from opencomputer.server.runtimes.prompting import STEERING
from opencomputer.server.runtimes.scripted.runtime import ScriptedRuntime
from opencomputer.wire.ids import AgentId, RevisionId

AGENT = PinnedAgent(
    agent_id=AgentId("agt_1"),
    version=1,
    revision_id=RevisionId("rev_1"),
    revision=1,
    digest="d",
    prompt="Be brief.\n",
    prompt_hash="h",
    model="scripted/echo",
    runtime="scripted",
    credential="managed",
)


def translated(kind: str, **message: object) -> Translated:
    fields: Mapping[str, Any] = message
    return ScriptedRuntime().translator().translate(BrainLine(kind, fields))


def test_text_is_narration() -> None:
    event = NewEvent("agent.message", Level.PROGRESS, {"text": "Hm."})
    assert translated("text", text="Hm.") == Translated((event,), text="Hm.")


def test_thinking_stays_internal() -> None:
    event = NewEvent("agent.thinking", Level.INTERNAL, {"text": "Hm."})
    assert translated("thinking", text="Hm.") == Translated((event,))


@pytest.mark.parametrize("kind", ["tool_use", "tool_result", "something new", "done"])
def test_tools_are_told_by_the_tools(kind: str) -> None:
    assert translated(kind, id="1", name="bash") == Translated()


def test_the_result_has_the_usage_and_whether_work_is_left() -> None:
    usage = {"input_tokens": 3, "output_tokens": 4}
    assert translated("result", stopped="end", usage=usage) == Translated(usage=Usage(3, 4))
    assert translated("result", stopped="max_steps", usage=usage).step_cap
    assert translated("result", stopped="end", usage={"input_tokens": -1}) == Translated(usage=Usage())


def test_a_failure_has_its_code() -> None:
    error = {"code": "model_error", "message": "No."}
    assert translated("error", **error) == Translated(error=TurnError("model_error", "No."))
    assert translated("done", reason="error", error=error).error == TurnError("model_error", "No.")


def test_the_steering_note_follows_the_prompt() -> None:
    assert ScriptedRuntime().system_prompt(AGENT) == f"Be brief.\n\n{STEERING}"


def test_every_session_has_the_same_program() -> None:
    program = ScriptedRuntime().program(AGENT, [])
    assert program.argv[0] == "/.oc/bin/python3"
    assert program.argv[-1] == "scripted"
    assert not program.files
