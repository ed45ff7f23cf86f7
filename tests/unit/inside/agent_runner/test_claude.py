"""The bridge to the Claude Agent SDK, with a stand-in for the SDK."""

from __future__ import annotations

import sys
import types
from collections.abc import AsyncIterator
from typing import Any

import pytest

from opencomputer.inside.agent_runner.claude import (
    ClaudeEngines,
    built_in_tools,
    engine_options,
    working_directory,
)
from opencomputer.inside.agent_runner.commands import Configuration
from opencomputer.inside.agent_runner.engine import EngineFailed

pytestmark = pytest.mark.anyio


class ProcessError(Exception):
    """Named like the SDK's."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Query:
    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def receive_messages(self) -> AsyncIterator[dict[str, Any]]:
        for message in self.messages:
            if isinstance(message, Exception):
                raise message
            yield message


class Client:
    """A stand-in for ClaudeSDKClient."""

    instances: list[Client]
    connect_error: Exception | None = None
    refused_mode: str | None = None

    def __init__(self, options: types.SimpleNamespace) -> None:
        self.options = options
        self.calls: list[tuple[str, ...]] = []
        self._query = Query()
        self.query_object = self._query
        Client.instances.append(self)

    async def connect(self) -> None:
        if Client.connect_error is not None:
            self.options.stderr("last words")
            raise Client.connect_error

    async def query(self, prompt: str) -> None:
        self.calls.append(("query", prompt))

    async def interrupt(self) -> None:
        raise RuntimeError("no answer")

    async def set_model(self, model: str) -> None:
        self.calls.append(("model", model))

    async def set_permission_mode(self, mode: str) -> None:
        if mode == Client.refused_mode:
            raise RuntimeError("not from here")
        self.calls.append(("mode", mode))

    async def disconnect(self) -> None:
        self.calls.append(("disconnect",))


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> type[Client]:
    module: Any = types.ModuleType("claude_agent_sdk")
    module.ClaudeSDKClient = Client
    module.ClaudeAgentOptions = types.SimpleNamespace
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", module)
    monkeypatch.setattr(Client, "instances", [], raising=False)
    monkeypatch.setattr(Client, "connect_error", None)
    monkeypatch.setattr(Client, "refused_mode", None)
    return Client


async def test_messages_are_the_engines_own(sdk: type[Client]) -> None:
    """Not what the SDK makes of them."""
    engine = await ClaudeEngines().start(Configuration(), None)
    message = {"type": "novelty", "session_id": "s", "nested": {"kept": [1]}}
    sdk.instances[0].query_object.messages = [message]
    assert [each async for each in engine.messages()] == [message]


async def test_an_engine_that_dies_says_how_and_what_it_wrote_last(sdk: type[Client]) -> None:
    """The log is handed over once."""
    engine = await ClaudeEngines().start(Configuration(), None)
    client = sdk.instances[0]
    client.options.stderr("out of memory")
    client.query_object.messages = [ProcessError("see stderr", -9)]
    with pytest.raises(EngineFailed) as failure:
        _ = [each async for each in engine.messages()]
    assert str(failure.value) == "the agent engine ended with exit code -9: out of memory"
    assert (failure.value.log, engine.drain_log()) == (("out of memory",), [])


async def test_a_failed_start_is_reported_with_the_engines_last_words(sdk: type[Client]) -> None:
    """Its text for people is in the log, where the SDK does not look."""
    sdk.connect_error = ProcessError("see stderr", 1)
    with pytest.raises(EngineFailed) as failure:
        await ClaudeEngines().start(Configuration(), None)
    assert str(failure.value) == "the agent engine ended with exit code 1: last words"


async def test_a_missing_sdk_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The template lacks it, then."""
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)
    with pytest.raises(EngineFailed, match="SDK is not installed"):
        await ClaudeEngines().prepare()


async def test_a_failing_call_is_an_engine_failure(sdk: type[Client]) -> None:
    """The session knows one kind of failure only."""
    engine = await ClaudeEngines().start(Configuration(), None)
    with pytest.raises(EngineFailed, match="no answer"):
        await engine.interrupt()


async def test_model_and_permission_mode_change_on_the_running_engine(sdk: type[Client]) -> None:
    """Nothing else does, and a refusal calls for a new engine."""
    engine = await ClaudeEngines().start(Configuration(), None)
    assert await engine.adapt(Configuration(), Configuration(model="m", permission_mode="plan"))
    assert sdk.instances[0].calls == [("model", "m"), ("mode", "plan")]
    assert not await engine.adapt(Configuration(), Configuration(model="m", max_turns=3))
    sdk.refused_mode = "bypassPermissions"
    assert not await engine.adapt(Configuration(permission_mode="plan"), Configuration())


async def test_the_options_carry_the_resume_and_room_for_large_messages(sdk: type[Client]) -> None:
    """A tool result may hold an image."""
    await ClaudeEngines().start(Configuration(), "earlier")
    options = sdk.instances[0].options
    assert (options.resume, options.max_buffer_size) == ("earlier", 64 << 20)


def test_the_defaults_are_the_coding_agent_with_all_its_tools() -> None:
    """A system prompt of one's own replaces the preset."""
    options = engine_options(Configuration())
    assert options["system_prompt"] == {"type": "preset", "preset": "claude_code"}
    assert (options["tools"], options["allowed_tools"], options["mcp_servers"]) == (None, [], {})
    assert engine_options(Configuration(system_prompt="Be terse."))["system_prompt"] == "Be terse."


def test_allowed_tools_restrict_the_engines_own_tools() -> None:
    """Also when permissions are bypassed. Tools of tool servers are not the engine's own."""
    allowed = ("Bash(git:*)", "Read", "Bash(ls)", "mcp__calc__add")
    options = engine_options(Configuration(allowed_tools=allowed))
    assert (options["tools"], options["allowed_tools"]) == (["Bash", "Read"], list(allowed))
    assert built_in_tools([]) == []


def test_relative_folders_start_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """As everywhere in the API."""
    monkeypatch.setenv("HOME", "/home/sandbox")
    assert working_directory(None) == "/home/sandbox"
    assert working_directory("work/x") == "/home/sandbox/work/x"
    assert working_directory("~/work") == "/home/sandbox/work"
    assert working_directory("/srv") == "/srv"
