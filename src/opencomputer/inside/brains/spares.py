"""An engine process that waits for its first conversation, so that this one need not wait for the process.

Starting takes the engine about a second, and it can be told nearly everything about its work afterwards. So a
brain starts one as soon as it can. Where that fails, for whatever reason, engines are started when needed.
"""

from __future__ import annotations

import importlib
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol, cast

from ..agent_runner.claude import LOG_LINES, MAX_MESSAGE_BYTES, ClaudeEngine
from ..agent_runner.engine import EngineFailed
from .claude_options import SERVER

_SDK = "claude_agent_sdk"
_TOLD_LATER = ("model", "system_prompt")


class _Transport(Protocol):
    async def connect(self) -> None: ...

    async def write(self, data: str) -> None: ...

    async def close(self) -> None: ...


class SpareEngine:
    """A process that was started with `options` and knows nothing of a conversation yet."""

    def __init__(self, options: Mapping[str, Any], transport: _Transport, made: Any, log: deque[str]) -> None:
        self._options = options
        self._transport = transport
        self._made = made
        self._log = log

    @classmethod
    async def start(cls, options: Mapping[str, Any]) -> SpareEngine:
        """Start a process. Raises EngineFailed."""
        log: deque[str] = deque(maxlen=LOG_LINES)
        try:
            sdk = importlib.import_module(_SDK)
            module = importlib.import_module(f"{_SDK}._internal.transport.subprocess_cli")
            made = sdk.ClaudeAgentOptions(**options, stderr=log.append, max_buffer_size=MAX_MESSAGE_BYTES)
            transport = cast("_Transport", module.SubprocessCLITransport(_nothing(), made))
            await transport.connect()
        except Exception as error:
            raise EngineFailed(f"no engine could be started beforehand: {error}") from error
        return cls(options, transport, made, log)

    def serves(self, options: Mapping[str, Any]) -> bool:
        """Whether it only has to be told what can be told later."""
        return _fixed(self._options) == _fixed(options)

    async def adopt(self, options: Mapping[str, Any]) -> ClaudeEngine:
        """Tell it what it is to do, and have it look for the tools. Raises EngineFailed."""
        client_class = importlib.import_module(_SDK).ClaudeSDKClient
        told = _Telling(self._transport, {"systemPrompt": options["system_prompt"]})
        client = client_class(self._made, transport=told)
        try:
            await client.connect()
            await client.set_model(options["model"])
            # It looked for them at its start, when there was no request that they could have belonged to.
            await client.reconnect_mcp_server(SERVER)
        except Exception as error:
            raise EngineFailed(f"the engine that was started beforehand cannot be used: {error}") from error
        return ClaudeEngine(client, self._log)

    async def close(self) -> None:
        """End the process. Never raises."""
        try:
            await self._transport.close()
        except Exception as error:
            self._log.append(str(error))


class _Telling:
    """A transport that adds to the first request what the SDK can only say on the engine's command line."""

    def __init__(self, transport: _Transport, addition: Mapping[str, Any]) -> None:
        self._transport = transport
        self._addition: Mapping[str, Any] | None = addition

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    async def write(self, data: str) -> None:
        if self._addition is not None:
            message = cast("dict[str, Any]", json.loads(data))
            if message.get("type") == "control_request":
                message["request"].update(self._addition)
                self._addition = None
                data = json.dumps(message) + "\n"
        await self._transport.write(data)


def _fixed(options: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in options.items() if name not in _TOLD_LATER}


async def _nothing() -> AsyncIterator[Mapping[str, Any]]:
    for message in ():
        yield message
