"""What may be written to the runner."""

from __future__ import annotations

import json

import pytest

from opencomputer.inside.agent_runner.commands import (
    BadCommand,
    Configuration,
    Configure,
    Interrupt,
    Prompt,
    parse_command,
)


def configured(**fields: object) -> Configuration:
    command = parse_command(json.dumps({"type": "configure", **fields}).encode())
    assert isinstance(command, Configure)
    return command.applied_to(Configuration())


def test_the_defaults_are_those_of_the_contract() -> None:
    """Model, permissions, steps and folder of a session that was not configured."""
    assert Configuration() == Configuration(
        model="claude-sonnet-4-20250514", permission_mode="bypassPermissions", max_turns=50, cwd=None
    )


def test_every_field_of_configure_is_understood() -> None:
    """The names are those of the HTTP API."""
    assert configured(
        model="m",
        systemPrompt="s",
        allowedTools=["Bash"],
        disallowedTools=["Write"],
        permissionMode="plan",
        maxTurns=3,
        cwd="work",
        mcpServers={"x": {"command": "y", "args": ["z"], "env": {"K": "V"}}},
        somethingNew=True,
    ) == Configuration(
        model="m",
        system_prompt="s",
        allowed_tools=("Bash",),
        disallowed_tools=("Write",),
        permission_mode="plan",
        max_turns=3,
        cwd="work",
        mcp_servers='{"x": {"args": ["z"], "command": "y", "env": {"K": "V"}}}',
    )


def test_configure_without_fields_changes_nothing() -> None:
    """Any subset is a configuration, the empty one too."""
    assert configured() == Configuration()


def test_null_takes_a_setting_back_to_its_default() -> None:
    """There is a way back from every setting."""
    command = parse_command(b'{"type":"configure","model":null,"allowedTools":null}')
    assert isinstance(command, Configure)
    assert command.applied_to(Configuration(model="m", allowed_tools=("Bash",))) == Configuration()


def test_a_prompt_and_an_interrupt_are_understood() -> None:
    """With and without the conversation to resume."""
    assert parse_command(b'{"type":"prompt","text":"hi"}') == Prompt("hi")
    assert parse_command(b'{"type":"prompt","text":"hi","resume":"r"}') == Prompt("hi", "r")
    assert parse_command(b'{"type":"interrupt"}') == Interrupt()


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b"\xff\xfe",
        b"[" * 100_000,
        b"17",
        b"{}",
        b'{"type":"prompt"}',
        b'{"type":"prompt","text":""}',
        b'{"type":"prompt","text":7}',
        b'{"type":"prompt","text":"x","resume":7}',
        b'{"type":"configure","model":""}',
        b'{"type":"configure","maxTurns":0}',
        b'{"type":"configure","maxTurns":true}',
        b'{"type":"configure","allowedTools":"Bash"}',
        b'{"type":"configure","allowedTools":[1]}',
        b'{"type":"configure","mcpServers":[]}',
        b'{"type":"configure","mcpServers":{"x":"y"}}',
    ],
)
def test_everything_else_is_refused_with_a_reason(line: bytes) -> None:
    """No line makes the runner fall over."""
    with pytest.raises(BadCommand) as refusal:
        parse_command(line)
    assert str(refusal.value)
