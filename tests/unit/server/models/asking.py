"""Asking a provider as the gateway does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from opencomputer.server.contracts.models import Header, ModelProvider, ModelRequest


class NotedClock:
    """A clock on which no time passes; it notes how long it was asked to wait."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


@dataclass(frozen=True)
class Answered:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events of a stream, each checked to be named like its data says."""
        parsed: list[dict[str, Any]] = []
        for block in self.body.decode().strip().split("\n\n"):
            name, data = block.split("\n")
            event = json.loads(data.removeprefix("data: "))
            assert name == f"event: {event['type']}"
            parsed.append(event)
        return parsed


def request(
    body: object = None,
    *,
    method: str = "POST",
    path: str = "/v1/messages",
    query: str = "",
    headers: Sequence[Header] = (),
) -> ModelRequest:
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ModelRequest(method, path, query, headers, pieces(encoded))


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data[: len(data) // 2]
    yield data[len(data) // 2 :]


async def ask(provider: ModelProvider, asked: ModelRequest) -> Answered:
    async with provider.answer(asked) as response:
        body = b"".join([chunk async for chunk in response.chunks])
        return Answered(response.status, dict(response.headers), body)


def messages(*turns: object, **fields: object) -> dict[str, Any]:
    """A Messages API request; prompts and replies alternate."""
    roles = ("user", "assistant")
    return {
        "model": "claude-test",
        "max_tokens": 1000,
        "messages": [{"role": roles[n % 2], "content": turn} for n, turn in enumerate(turns)],
        "tools": [{"name": "Bash", "input_schema": {"type": "object"}}],
        **fields,
    }


def tool_result(text: str) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": "t", "content": text}]
