"""The operator's own provider: requests go on to the Messages API with the operator's key."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx

from opencomputer.server.contracts.models import ModelRequest, ModelResponse
from opencomputer.server.domain.model_apis import ANTHROPIC
from opencomputer.server.models.replies import error_reply
from opencomputer.server.models.upstream import DEFAULT_BASE_URLS, UpstreamModels

DEFAULT_BASE_URL = DEFAULT_BASE_URLS[ANTHROPIC]


class AnthropicModel:
    """Forwards to `base_url`, adding the operator's key, which therefore never enters a machine.

    Without a key it is not available and refuses every request with an explanation.
    """

    name = "anthropic"
    providers = frozenset({"anthropic"})

    def __init__(
        self,
        api_key: str | None,
        *,
        base_url: str = DEFAULT_BASE_URL,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._api_key = api_key
        self._upstream = UpstreamModels({ANTHROPIC: base_url}, transport=transport)

    @property
    def available(self) -> bool:
        return bool(self._api_key)

    @asynccontextmanager
    async def answer(self, request: ModelRequest) -> AsyncGenerator[ModelResponse, None]:
        """Send one request on and stream its answer back. See ModelProvider."""
        if not self._api_key:
            yield error_reply(503, "This node has no key for a model provider", kind="api_error")
            return
        async with self._upstream.answer(ANTHROPIC, request, self._api_key) as response:
            yield response

    async def close(self) -> None:
        await self._upstream.close()
