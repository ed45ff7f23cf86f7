"""What the Claude runtime says, and what it understands of what the real engine said."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from opencomputer.server.contracts.runtimes import BrainLine, SkillFile, Translated
from opencomputer.server.domain.sessions.session import TurnError, Usage
from opencomputer.server.runtimes.claude.runtime import ClaudeRuntime
from tests.unit.server.runtimes.recorded import events_of, meanings, recorded
from tests.unit.server.runtimes.test_scripted import AGENT


def translated(name: str) -> Sequence[Translated]:
    return meanings(ClaudeRuntime().translator(), recorded(name))


def errors_of(name: str) -> Sequence[TurnError]:
    return [each.error for each in translated(name) if each.error is not None]


def test_a_turn_with_tools_is_narration_and_usage() -> None:
    """The session's own tools tell of themselves: nothing of them comes from here."""
    meaning = translated("claude_tools")
    (first, second, result) = events_of(meaning)
    assert first == ("agent.message", "progress", {"text": "Let me look."})
    assert second == ("agent.message", "progress", {"text": "Done."})
    assert result[:2] == ("agent.result", "internal")
    assert [each.text for each in meaning if each.text] == ["Let me look.", "Done."]
    usages = [each.usage for each in meaning if each.usage is not None]
    assert usages == [Usage(2440, 15, cost_usd=0.00503)]
    assert not any(each.step_cap or each.error for each in meaning)


def test_the_step_cap_is_no_error() -> None:
    meaning = translated("claude_step_cap")
    assert [each.step_cap for each in meaning].count(True) == 1
    assert errors_of("claude_step_cap") == []
    assert next(each.usage for each in meaning if each.usage) == Usage(6265, 25, cost_usd=0.01278)


def test_an_unknown_model_is_an_error_and_not_narration() -> None:
    (error,) = errors_of("claude_unknown_model")
    assert (error.code, error.retriable) == ("model_not_found", False)
    assert not [
        event for event in events_of(translated("claude_unknown_model")) if event[0] == "agent.message"
    ]


def test_a_rejected_key_is_told_at_the_first_try() -> None:
    assert [error.code for error in errors_of("claude_rejected_key")] == ["model_key_rejected"]


@pytest.mark.parametrize(
    ("status", "message", "code", "retriable"),
    [
        (429, "slow down", "model_rate_limited", True),
        (529, "overloaded", "model_unavailable", True),
        (400, "too long", "model_error", False),
        (400, "credential_missing: add a key", "credential_missing", False),
        (None, "", "model_error", False),
    ],
)
def test_failures_have_codes(status: int | None, message: str, code: str, retriable: bool) -> None:
    fields = {"is_error": True, "subtype": "success", "api_error_status": status, "result": message}
    error = ClaudeRuntime().translator().translate(BrainLine("result", fields)).error
    assert error is not None
    assert (error.code, error.retriable) == (code, retriable)


def test_other_tools_of_the_engine_are_told() -> None:
    block = {"type": "tool_use", "id": "t", "name": "Skill", "input": {"skill": "x" * 500}}
    line = BrainLine("assistant", {"message": {"content": [block]}})
    ((kind, level, body),) = events_of(meanings(ClaudeRuntime().translator(), [line]))
    assert (kind, level, body["tool"], len(body["args_summary"])) == ("tool.call", "internal", "Skill", 200)


@pytest.mark.parametrize("message", [{}, {"message": 1}, {"message": {"content": ["x", {"type": "text"}]}}])
def test_messages_without_sense_mean_nothing(message: dict[str, object]) -> None:
    assert ClaudeRuntime().translator().translate(BrainLine("assistant", message)) == Translated([])


def test_skills_lie_where_the_engine_looks_for_them() -> None:
    program = ClaudeRuntime().program(AGENT, [SkillFile("pdf/SKILL.md", b"---", executable=False)])
    assert program.files == {"/home/sandbox/.oc/runtime-state/claude/skills/pdf/SKILL.md": b"---"}
    assert program.argv[-1] == "claude"


def test_the_model_is_behind_the_gateway() -> None:
    profile = ClaudeRuntime().endpoint("http://169.254.169.254/v1/model")
    assert profile["base_url"] == "http://169.254.169.254/v1/model/anthropic"
