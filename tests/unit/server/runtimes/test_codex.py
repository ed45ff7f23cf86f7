"""What the Codex runtime says, and what it understands of what the real engine said."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from opencomputer.server.contracts.runtimes import BrainLine, Translated
from opencomputer.server.domain.sessions.session import TurnError, Usage
from opencomputer.server.runtimes.codex.runtime import CodexRuntime
from tests.unit.server.runtimes.recorded import events_of, meanings, recorded
from tests.unit.server.runtimes.test_scripted import AGENT


def translated(name: str) -> Sequence[Translated]:
    return meanings(CodexRuntime().translator(), recorded(name))


def errors_of(name: str) -> Sequence[TurnError]:
    return [each.error for each in translated(name) if each.error is not None]


def test_a_turn_with_tools_is_narration_and_usage() -> None:
    """The session's own tools tell of themselves: nothing of them comes from here."""
    meaning = translated("codex_tools")
    assert events_of(meaning) == [
        ("agent.message", "progress", {"text": "Let me look."}),
        ("agent.message", "progress", {"text": "Done."}),
    ]
    assert [each.usage for each in meaning if each.usage is not None] == [Usage(4874, 15)]
    assert not any(each.step_cap or each.error for each in meaning)


def test_usage_is_what_this_request_added_to_the_conversation() -> None:
    """The engine tells 6700 and 23, all requests together."""
    (usage,) = [each.usage for each in translated("codex_second_turn") if each.usage is not None]
    assert usage == Usage(1826, 8)


def test_cached_input_is_counted_once() -> None:
    totals = {
        "input_tokens": 100,
        "cached_input_tokens": 60,
        "cache_write_input_tokens": 10,
        "output_tokens": 5,
    }
    line = BrainLine("turn.completed", {"usage": totals})
    assert CodexRuntime().translator().translate(line).usage == Usage(30, 5, 10, 60)


def test_the_step_cap_is_no_error() -> None:
    assert [each.step_cap for each in translated("codex_step_cap")].count(True) == 1
    assert errors_of("codex_step_cap") == []


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("codex_rejected_key", TurnError("model_key_rejected", "bad key")),
        ("codex_unknown_model", TurnError("model_not_found", "no such model")),
        ("codex_refused", TurnError("model_error", "credit too low")),
    ],
)
def test_failures_have_codes_and_the_providers_words(name: str, error: TurnError) -> None:
    assert errors_of(name) == [error]
    assert events_of(translated(name)) == []


def test_what_the_engine_does_by_itself_is_told() -> None:
    items = [
        {"type": "command_execution", "command": "x" * 500},
        {"type": "mcp_tool_call", "server": "other", "tool": "find", "arguments": {"a": 1}},
    ]
    lines = [BrainLine("item.completed", {"item": item}) for item in items]
    first, second = events_of(meanings(CodexRuntime().translator(), lines))
    assert (first[2]["tool"], len(first[2]["args_summary"])) == ("command_execution", 200)
    assert second == ("tool.call", "internal", {"tool": "other.find", "args_summary": '{"a": 1}'})


@pytest.mark.parametrize(
    "item", [None, {}, {"type": ["agent_message"]}, {"type": "agent_message", "text": " "}]
)
def test_items_without_sense_mean_nothing(item: object) -> None:
    line = BrainLine("item.completed", {"item": item})
    assert CodexRuntime().translator().translate(line) == Translated()


def test_the_model_is_behind_the_gateway_and_the_engine_in_the_template() -> None:
    profile = CodexRuntime().endpoint("http://169.254.169.254/v1/model")
    assert profile["base_url"] == "http://169.254.169.254/v1/model/openai/v1"
    assert CodexRuntime().program(AGENT, []).argv[-1] == "codex"
