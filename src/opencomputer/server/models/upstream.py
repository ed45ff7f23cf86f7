"""Requests that go on to a provider's own API, with the key of whoever pays for them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

import httpx

from opencomputer.server.contracts.models import Header, ModelInterrupted, ModelRequest, ModelResponse
from opencomputer.server.domain.model_apis import ANTHROPIC, MODEL_APIS, OPENAI, ModelApi
from opencomputer.server.models.replies import RequestTooLarge, api_error, within_cap

DEFAULT_BASE_URLS: Mapping[str, str] = {
    ANTHROPIC: "https://api.anthropic.com",
    OPENAI: "https://api.openai.com",
}

BODY_CHUNK_SECONDS = 60.0
"""How long the caller may take between two pieces of its request."""

_TIMEOUTS = httpx.Timeout(connect=10, write=60, read=600, pool=30)
"""An answer that is not streamed may take ten minutes; a streamed one sends pings much more often."""

_LIMITS = httpx.Limits(max_connections=512, max_keepalive_connections=32, keepalive_expiry=30)


class UpstreamModels:
    """Forwards to the providers' APIs. Keys come with each request and never enter a machine.

    Implements KeyedModels. `base_urls` are used instead of the providers' own where they are given.
    """

    def __init__(
        self,
        base_urls: Mapping[str, str | None] | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        given = {name: url.rstrip("/") for name, url in (base_urls or {}).items() if url}
        self._base_urls = {**DEFAULT_BASE_URLS, **given}
        # The system's certificates rather than a bundled list: a company's inspecting proxy is in the former.
        self._client = httpx.AsyncClient(
            transport=transport,
            verify=ssl.create_default_context(),
            timeout=_TIMEOUTS,
            limits=_LIMITS,
            follow_redirects=False,
        )

    @asynccontextmanager
    async def answer(
        self, provider: str, request: ModelRequest, key: str
    ) -> AsyncGenerator[ModelResponse, None]:
        """Send one request on and stream its answer back. See KeyedModels."""
        api = MODEL_APIS[provider]
        if not api.offers(request.method, request.path):
            yield api_error(api, 404, f"The model gateway does not offer {request.method} {request.path}")
            return
        try:
            incoming = await self._client.send(self._outgoing(api, request, key), stream=True)
        except RequestTooLarge:
            yield api_error(api, 413, "The request is larger than 32 MB")
            return
        except TimeoutError:
            yield api_error(api, 408, "The request took too long to arrive", kind="invalid_request_error")
            return
        except httpx.TimeoutException:
            yield api_error(api, 504, "The model provider did not answer in time", kind="timeout_error")
            return
        except httpx.HTTPError as error:
            yield api_error(api, 502, f"The model provider cannot be reached ({type(error).__name__})")
            return
        try:
            headers = _passing(incoming.headers.multi_items(), api.response_headers, api.response_prefixes)
            yield ModelResponse(incoming.status_code, headers, _chunks(incoming))
        finally:
            await incoming.aclose()

    async def close(self) -> None:
        """Let go of connections. Idempotent."""
        await self._client.aclose()

    def _outgoing(self, api: ModelApi, request: ModelRequest, key: str) -> httpx.Request:
        passing = _passing(request.headers, api.request_headers, api.request_prefixes)
        if request.method == "GET":
            passing = tuple(header for header in passing if header[0] != "content-length")
        # Compressed answers would be held back until a block is full: ask for none.
        headers = [*passing, ("accept-encoding", "identity"), api.authorization(key)]
        query = f"?{request.query}" if request.query else ""
        return self._client.build_request(
            request.method,
            f"{self._base_urls[api.provider]}{request.path}{query}",
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
