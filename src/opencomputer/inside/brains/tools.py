"""A client for the tools of a request: MCP over HTTP, as far as a server without sessions needs it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from .posting import Unreachable, post
from .requests import Json

PROTOCOL_VERSION = "2025-06-18"
_VERSION = {"mcp-protocol-version": PROTOCOL_VERSION}


class ToolsFailed(Exception):
    """The tools cannot be reached, or do not answer as they should."""


@dataclass(frozen=True)
class ToolResult:
    text: str
    is_error: bool


class Tools:
    """Calls tools at one endpoint. Each call has a connection of its own, closed when it is given up."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._ids = itertools.count(1)
        self._initialised = False

    async def call(self, name: str, arguments: Mapping[str, Json]) -> ToolResult:
        """Call one tool. What the tool itself reports as an error is a result. Raises ToolsFailed."""
        if not self._initialised:
            client = {"name": "opencomputer-brain", "version": "1"}
            fields = {"protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": client}
            await self._request("initialize", fields)
            await self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            self._initialised = True
        result = await self._request("tools/call", {"name": name, "arguments": arguments})
        return ToolResult(_text(result.get("content")), result.get("isError") is True)

    async def _request(self, method: str, params: Mapping[str, Json]) -> Mapping[str, Json]:
        message: dict[str, Json] = {
            "jsonrpc": "2.0",
            "id": next(self._ids),
            "method": method,
            "params": params,
        }
        answer = await self._send(message)
        error = answer.get("error")
        if isinstance(error, dict):
            raise ToolsFailed(f"{method}: {error.get('message')}")
        result = answer.get("result")
        if not isinstance(result, dict):
            raise ToolsFailed(f"{method}: the answer has no result")
        return result

    async def _send(self, message: Mapping[str, Json]) -> Mapping[str, Json]:
        try:
            status, body = await post(self._endpoint, json.dumps(message).encode(), _VERSION)
        except Unreachable as error:
            raise ToolsFailed(f"the tools cannot be reached: {error}") from error
        if status not in (200, 202):
            raise ToolsFailed(
                f"the tools answered with status {status}: {body[:500].decode(errors='replace')}"
            )
        if "id" not in message:
            return {}
        try:
            answer = cast("Json", json.loads(body))
        except (ValueError, RecursionError) as error:
            raise ToolsFailed("the tools' answer is not valid JSON") from error
        if not isinstance(answer, dict):
            raise ToolsFailed("the tools' answer is not an object")
        return answer


def _text(content: Json) -> str:
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
