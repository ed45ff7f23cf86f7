"""The operator's own provider: requests go on to the Messages API with the operator's key."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager

import httpx

from opencomputer.server.contracts.models import Header, ModelInterrupted, ModelRequest, ModelResponse
from opencomputer.server.models.replies import (
    RequestTooLarge,
    error_reply,
    is_offered,
    refuse_unknown,
    within_cap,
)

DEFAULT_BASE_URL = "https://api.anthropic.com"

BODY_CHUNK_SECONDS = 60.0
"""How long the caller may take between two pieces of its request."""

_TIMEOUTS = httpx.Timeout(connect=10, write=60, read=600, pool=30)
"""An answer that is not streamed may take ten minutes; a streamed one sends pings much more often."""

_LIMITS = httpx.Limits(max_connections=512, max_keepalive_connections=32, keepalive_expiry=30)

# Lists of what passes, not of what does not: a header nobody thought of stays on its side.
_REQUEST_HEADERS = frozenset({"accept", "content-type", "content-length", "user-agent", "x-app"})
_REQUEST_PREFIXES = ("anthropic-", "x-stainless-", "x-claude-code-")
_RESPONSE_HEADERS = frozenset(
    {
        "cache-control",
        "content-encoding",
        "content-length",
        "content-type",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "x-should-retry",
    }
)
_RESPONSE_PREFIXES = ("anthropic-ratelimit-",)


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
        self._base_url = base_url.rstrip("/")
        # The system's certificates rather than a bundled list: a company's inspecting proxy is in the former.
        self._client = httpx.AsyncClient(
            transport=transport,
            verify=ssl.create_default_context(),
            timeout=_TIMEOUTS,
            limits=_LIMITS,
            follow_redirects=False,
        )

    @property
    def available(self) -> bool:
        return bool(self._api_key)

    @asynccontextmanager
    async def answer(self, request: ModelRequest) -> AsyncGenerator[ModelResponse, None]:
        """Send one request on and stream its answer back. See ModelProvider."""
        if not self._api_key:
            yield error_reply(503, "This node has no key for a model provider", kind="api_error")
            return
        if not is_offered(request):
            yield refuse_unknown(request)
            return
        outgoing = self._outgoing(request, self._api_key)
        try:
            incoming = await self._client.send(outgoing, stream=True)
        except RequestTooLarge:
            yield error_reply(413, "The request is larger than 32 MB")
            return
        except TimeoutError:
            yield error_reply(408, "The request took too long to arrive", kind="invalid_request_error")
            return
        except httpx.TimeoutException:
            yield error_reply(504, "The model provider did not answer in time", kind="timeout_error")
            return
        except httpx.HTTPError as error:
            yield error_reply(502, f"The model provider cannot be reached ({type(error).__name__})")
            return
        try:
            headers = _passing(incoming.headers.multi_items(), _RESPONSE_HEADERS, _RESPONSE_PREFIXES)
            yield ModelResponse(incoming.status_code, headers, _chunks(incoming))
        finally:
            await incoming.aclose()

    async def close(self) -> None:
        await self._client.aclose()

    def _outgoing(self, request: ModelRequest, api_key: str) -> httpx.Request:
        passing = _passing(request.headers, _REQUEST_HEADERS, _REQUEST_PREFIXES)
        if request.method == "GET":
            passing = tuple(header for header in passing if header[0] != "content-length")
        # Compressed answers would be held back until a block is full: ask for none.
        headers = [*passing, ("accept-encoding", "identity"), ("x-api-key", api_key)]
        query = f"?{request.query}" if request.query else ""
        return self._client.build_request(
            request.method,
            f"{self._base_url}{request.path}{query}",
            headers=headers,
            content=None if request.method == "GET" else _punctual(within_cap(request.body)),
        )


async def _chunks(response: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.aiter_raw():
            yield chunk
    except httpx.HTTPError as error:
        raise ModelInterrupted("The model provider broke its answer off") from error


async def _punctual(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    iterator = aiter(chunks)
    while True:
        async with asyncio.timeout(BODY_CHUNK_SECONDS):
            try:
                chunk = await anext(iterator)
            except StopAsyncIteration:
                return
        yield chunk


def _passing(
    headers: Iterable[Header], names: frozenset[str], prefixes: tuple[str, ...]
) -> tuple[Header, ...]:
    return tuple(
        (name.lower(), value)
        for name, value in headers
        if name.lower() in names or name.lower().startswith(prefixes)
    )
