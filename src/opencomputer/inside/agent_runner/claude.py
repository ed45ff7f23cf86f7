"""The real engine, through the Claude Agent SDK."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

from .commands import Configuration, Json
from .engine import Engine, EngineFailed, Message
from .environment import engine_environment
from .stand_ins import import_without

SDK = "claude_agent_sdk"
MAX_MESSAGE_BYTES = 64 << 20
"""Tool results carry whole images; the SDK's own limit of 1 MiB would end the session."""

LOG_LINES = 50


class _Query(Protocol):
    def receive_messages(self) -> AsyncIterator[Mapping[str, Json]]: ...


class _Client(Protocol):
    """What is used of the SDK's ClaudeSDKClient."""

    _query: _Query

    async def connect(self) -> None: ...

    async def query(self, prompt: str) -> None: ...

    async def interrupt(self) -> None: ...

    async def set_model(self, model: str) -> None: ...

    async def set_permission_mode(self, mode: str) -> None: ...

    async def disconnect(self) -> None: ...


class _Sdk(Protocol):
    ClaudeSDKClient: Callable[..., _Client]
    ClaudeAgentOptions: Callable[..., Any]


class ClaudeEngines:
    """Starts the engine that comes with the Claude Agent SDK."""

    def __init__(self) -> None:
        self._sdk: _Sdk | None = None

    async def prepare(self) -> None:
        """Import the SDK, which takes its time: in a thread, so that commands are read meanwhile."""
        if self._sdk is not None:
            return
        # The SDK logs what it also raises; standard error is for people.
        logging.getLogger(SDK).addHandler(logging.NullHandler())
        logging.getLogger(SDK).propagate = False
        try:
            self._sdk = cast("_Sdk", await asyncio.to_thread(import_without, "mcp", SDK))
        except ImportError as error:
            raise EngineFailed(f"the Claude Agent SDK is not installed: {error}") from error

    async def start(self, configuration: Configuration, resume: str | None) -> Engine:
        """Start an engine process. See Engines."""
        environment = engine_environment(os.environ, os.getuid())
        return await self.launch({**engine_options(configuration), "resume": resume, "env": environment})

    async def launch(self, options: Mapping[str, Any]) -> ClaudeEngine:
        """Start an engine process with these options of the SDK. Raises EngineFailed."""
        await self.prepare()
        sdk = cast("_Sdk", self._sdk)
        log: deque[str] = deque(maxlen=LOG_LINES)
        made = sdk.ClaudeAgentOptions(**options, stderr=log.append, max_buffer_size=MAX_MESSAGE_BYTES)
        client = sdk.ClaudeSDKClient(made)
        try:
            await client.connect()
        except Exception as error:
            raise _failure(error, log) from error
        return ClaudeEngine(client, log)


class ClaudeEngine:
    """One engine process. See Engine."""

    def __init__(self, client: _Client, log: deque[str]) -> None:
        self._client = client
        self._log = log

    async def messages(self) -> AsyncIterator[Message]:
        # Not the SDK's public iterator: it makes objects of its own of the messages and drops the fields and
        # types it does not know, while our clients are promised the engine's messages as they are.
        query = self._client._query  # pyright: ignore[reportPrivateUsage]
        try:
            async for message in query.receive_messages():
                yield message
        except Exception as error:
            raise _failure(error, self._log) from error

    async def prompt(self, text: str) -> None:
        await self._ask(self._client.query(text))

    async def interrupt(self) -> None:
        await self._ask(self._client.interrupt())

    async def adapt(self, old: Configuration, new: Configuration) -> bool:
        if replace(old, model=new.model, permission_mode=new.permission_mode) != new:
            return False
        try:
            if old.model != new.model:
                await self._ask(self._client.set_model(new.model))
            if old.permission_mode != new.permission_mode:
                await self._ask(self._client.set_permission_mode(new.permission_mode))
        except EngineFailed:
            # Some modes can only be had from the start.
            return False
        return True

    def drain_log(self) -> Sequence[str]:
        lines = list(self._log)
        self._log.clear()
        return lines

    async def close(self) -> None:
        try:
            await self._client.disconnect()
        except Exception as error:
            raise _failure(error, self._log) from error

    async def _ask(self, request: Any) -> None:
        try:
            await request
        except Exception as error:
            raise _failure(error, self._log) from error


def engine_options(configuration: Configuration) -> dict[str, Any]:
    """The configuration in the SDK's words."""
    allowed = configuration.allowed_tools
    return {
        "model": configuration.model,
        "system_prompt": configuration.system_prompt or {"type": "preset", "preset": "claude_code"},
        "tools": None if allowed is None else built_in_tools(allowed),
        "allowed_tools": list(allowed or ()),
        "disallowed_tools": list(configuration.disallowed_tools),
        "permission_mode": configuration.permission_mode,
        "max_turns": configuration.max_turns,
        "cwd": working_directory(configuration.cwd),
        "mcp_servers": json.loads(configuration.mcp_servers),
    }


def built_in_tools(allowed: Sequence[str]) -> list[str]:
    """The engine's own tools among allowed ones, patterns like `Bash(git:*)` reduced to their tool."""
    names = [name.partition("(")[0].strip() for name in allowed]
    return list(dict.fromkeys(name for name in names if name and not name.startswith("mcp__")))


def working_directory(cwd: str | None) -> str:
    """Where the engine works: relative paths start at home."""
    home = os.path.expanduser("~")
    return os.path.join(home, os.path.expanduser(cwd)) if cwd else home


def _failure(error: Exception, log: deque[str]) -> EngineFailed:
    """What to tell the user about a failure in the SDK or in the engine; takes the log along."""
    lines = list(log)
    log.clear()
    exit_code = getattr(error, "exit_code", None)
    if type(error).__name__ == "ProcessError" and isinstance(exit_code, int):
        # The SDK's own message only points to standard error, which is what the log holds.
        last = f": {lines[-1]}" if lines else ""
        return EngineFailed(f"the agent engine ended with exit code {exit_code}{last}", lines)
    return EngineFailed(str(error) or type(error).__name__, lines)
