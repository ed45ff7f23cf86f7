"""Exec sessions, terminals and agents: each route reaches its own kind only."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from opencomputer.server.contracts.machine import (
    ExitStatus,
    Machine,
    ProcessKind,
    ProcessRecord,
    TerminalSize,
)
from opencomputer.server.domain.errors import InvalidInput, NotFound, NotSupported
from opencomputer.server.services.sandboxes.agents import AgentRequest, Agents, model_environment
from opencomputer.server.services.sandboxes.commands import CommandRequest
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.sessions import Sessions
from opencomputer.wire.ids import ProcessId
from tests.support.memory.machines import MemoryMachine
from tests.support.memory.processes import MemoryProcess, MemoryProcesses
from tests.unit.server.services.harness import Node

pytestmark = pytest.mark.anyio


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


@pytest.fixture
async def live(node: Node, anyio_backend: object) -> AsyncGenerator[LiveSandbox]:
    """A sandbox in which programs run until they are ended."""
    async with node.process() as process:
        made = await process.live_one()
        of(made).program = lambda _process: None
        yield made


def of(live: LiveSandbox) -> MemoryProcesses:
    assert isinstance(live.machine, MemoryMachine)
    return live.machine.processes


def nothing_sealed(_machine: Machine) -> frozenset[str]:
    return frozenset()


async def one_of_each(live: LiveSandbox, sessions: Sessions) -> dict[ProcessKind, ProcessRecord]:
    run = CommandRequest("x").process(ProcessKind.RUN, live.id)
    agents = Agents(sessions, nothing_sealed, gateway_available=False)
    return {
        ProcessKind.RUN: await live.machine.processes.spawn(run),
        ProcessKind.SESSION: await sessions.start(live, CommandRequest("x")),
        ProcessKind.AGENT: await agents.start(live, AgentRequest()),
        ProcessKind.PTY: await sessions.open_terminal(live, TerminalSize(0, 0), None),
    }


async def test_sessions_and_agents_are_listed_commands_and_terminals_are_not(
    live: LiveSandbox, sessions: Sessions
) -> None:
    made = await one_of_each(live, sessions)
    listed = {record.id for record in await sessions.list(live)}
    assert listed == {made[ProcessKind.SESSION].id, made[ProcessKind.AGENT].id}


@pytest.mark.parametrize("asked", list(ProcessKind))
async def test_each_kind_is_found_as_itself_only(
    live: LiveSandbox, sessions: Sessions, asked: ProcessKind
) -> None:
    for kind, record in (await one_of_each(live, sessions)).items():
        if kind is asked:
            assert (await sessions.get(live, ProcessId(record.id), asked)).id == record.id
        else:
            with pytest.raises(NotFound):
                await sessions.get(live, ProcessId(record.id), asked)
            with pytest.raises(NotFound):
                await sessions.kill(live, ProcessId(record.id), 9, asked)
            assert of(live).by_id[record.id].signals == []


@pytest.mark.parametrize(("asked", "sent"), [(0, 9), (9, 9), (15, 15), (2, 2)])
async def test_a_kill_without_a_signal_is_sigkill(
    live: LiveSandbox, sessions: Sessions, asked: int, sent: int
) -> None:
    record = await sessions.start(live, CommandRequest("x"))
    await sessions.kill(live, ProcessId(record.id), asked)
    assert of(live).by_id[record.id].signals == [sent]


async def test_killing_what_has_ended_changes_nothing(live: LiveSandbox, sessions: Sessions) -> None:
    record = await sessions.start(live, CommandRequest("x"))
    of(live).by_id[record.id].end(ExitStatus(3))
    await sessions.kill(live, ProcessId(record.id), 9)
    assert (await sessions.get(live, ProcessId(record.id))).exit == ExitStatus(3)
    assert of(live).by_id[record.id].signals == []


async def test_a_terminal_has_the_size_that_was_asked_for_or_eighty_by_twenty_four(
    live: LiveSandbox, sessions: Sessions
) -> None:
    for asked, given in (
        (TerminalSize(0, 0), TerminalSize(80, 24)),
        (TerminalSize(120, 0), TerminalSize(120, 24)),
        (TerminalSize(100, 40), TerminalSize(100, 40)),
    ):
        record = await sessions.open_terminal(live, asked, None)
        assert of(live).by_id[record.id].size == given


async def test_a_terminal_can_be_resized_while_it_runs(live: LiveSandbox, sessions: Sessions) -> None:
    record = await sessions.open_terminal(live, TerminalSize(80, 24), None)
    await sessions.resize_terminal(live, ProcessId(record.id), TerminalSize(132, 50))
    assert of(live).by_id[record.id].size == TerminalSize(132, 50)
    of(live).by_id[record.id].end()
    await sessions.resize_terminal(live, ProcessId(record.id), TerminalSize(1, 1))
    assert of(live).by_id[record.id].size == TerminalSize(132, 50)


async def test_a_shell_that_cannot_be_started_is_the_callers_fault(
    live: LiveSandbox, sessions: Sessions
) -> None:
    of(live).program = lambda process: process.end(ExitStatus(127, error="zsh: command not found"))
    with pytest.raises(InvalidInput, match="zsh"):
        await sessions.open_terminal(live, TerminalSize(80, 24), "/usr/bin/zsh")


# Agents


def lines_of(process: MemoryProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in process.written.splitlines()]


@pytest.mark.parametrize(
    ("request_", "lines"),
    [
        (AgentRequest(), []),
        (AgentRequest(prompt="hi\nthere"), [{"type": "prompt", "text": "hi\nthere"}]),
        (AgentRequest(configuration={"model": "m"}), [{"type": "configure", "model": "m"}]),
        (
            AgentRequest(prompt="p", configuration={"maxTurns": 3, "cwd": "/x"}),
            [{"type": "configure", "maxTurns": 3, "cwd": "/x"}, {"type": "prompt", "text": "p"}],
        ),
    ],
)
async def test_an_agent_is_configured_and_then_prompted(
    live: LiveSandbox, sessions: Sessions, request_: AgentRequest, lines: list[dict[str, Any]]
) -> None:
    record = await Agents(sessions, nothing_sealed, gateway_available=True).start(live, request_)
    process = of(live).by_id[record.id]
    assert process.spec.argv == ("claude-agent-wrapper",)
    assert lines_of(process) == lines
    assert process.attached == 0


async def test_prompts_and_interrupts_reach_agents_only(live: LiveSandbox, sessions: Sessions) -> None:
    agents = Agents(sessions, nothing_sealed, gateway_available=True)
    made = await one_of_each(live, sessions)
    agent = made.pop(ProcessKind.AGENT)
    await agents.prompt(live, ProcessId(agent.id), "go on")
    await agents.interrupt(live, ProcessId(agent.id))
    assert lines_of(of(live).by_id[agent.id]) == [{"type": "prompt", "text": "go on"}, {"type": "interrupt"}]
    for other in made.values():
        for call in (
            agents.prompt(live, ProcessId(other.id), "x"),
            agents.interrupt(live, ProcessId(other.id)),
        ):
            with pytest.raises(NotFound):
                await call
        assert of(live).by_id[other.id].written == b""
    assert [record.id for record in await agents.list(live)] == [agent.id]


async def test_a_template_without_a_runner_is_not_supported(live: LiveSandbox, sessions: Sessions) -> None:
    of(live).program = lambda process: process.end(ExitStatus(127, error="command not found"))
    with pytest.raises(NotSupported, match="runner"):
        await Agents(sessions, nothing_sealed, gateway_available=True).start(live, AgentRequest(prompt="x"))


@pytest.mark.parametrize("own", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"])
@pytest.mark.parametrize("sealed", [True, False])
async def test_a_sandbox_with_a_key_of_its_own_goes_its_own_way(
    live: LiveSandbox, sessions: Sessions, own: str, sealed: bool
) -> None:
    if not sealed:
        live.sandbox = replace(live.sandbox, environment={own: "secret"})
    names = frozenset({own}) if sealed else frozenset[str]()
    agents = Agents(sessions, lambda _: names, gateway_available=True)
    record = await agents.start(live, AgentRequest())
    assert of(live).by_id[record.id].spec.environment == {}


async def test_without_a_key_an_agent_finds_the_node_and_a_placeholder(
    live: LiveSandbox, sessions: Sessions
) -> None:
    live.sandbox = replace(live.sandbox, environment={"ANTHROPIC_API_KEY": ""})
    record = await Agents(sessions, nothing_sealed, gateway_available=True).start(live, AgentRequest())
    environment = of(live).by_id[record.id].spec.environment
    assert environment["ANTHROPIC_BASE_URL"] == "http://169.254.169.254/v1/model/anthropic"
    assert environment["ANTHROPIC_API_KEY"]
    assert model_environment((), gateway_available=False) == {}
