"""The HTTP connection of durable sessions: credentials, retries and errors in one place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from opencomputer.sdk import answers
from opencomputer.sdk.answers import JsonObject
from opencomputer.sdk.durable.bodies import plain
from opencomputer.sdk.durable.endpoint import DurableEndpoint
from opencomputer.sdk.errors import ClientClosedError, error_from, retry_after_seconds
from opencomputer.sdk.http import httpx
from opencomputer.sdk.http_client import http_client
from opencomputer.sdk.version import installed_version

DEFAULT_TIMEOUT_SECONDS = 60.0
DEFAULT_RETRIES = 2
_FIRST_DELAY_SECONDS = 0.5
_LONGEST_DELAY_SECONDS = 8.0
_LONGEST_RETRY_AFTER_SECONDS = 60.0
_TOO_MANY_REQUESTS = 429
_NOT_IMPLEMENTED = 501
# A live stream says something at least every 15 seconds; after three missed times nobody is there any more.
_SILENCE_SECONDS = 45.0

Sleep = Callable[[float], Awaitable[None]]
Parameters = Mapping[str, str | int | bool | None]


@dataclass(frozen=True)
class Request:
    """One call. `repeatable` says that sending it twice does no more than sending it once.

    `path` is below the server's address, or an address of its own. With `sends_null` a body of None is sent.
    """

    method: str
    path: str
    repeatable: bool = False
    json: object | None = None
    content: bytes | None = None
    params: Parameters = field(default_factory=dict[str, "str | int | bool | None"])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    sends_null: bool = False


@dataclass(frozen=True)
class Options:
    """How a connection behaves. A client that is given is used as it is, and not closed."""

    retries: int = DEFAULT_RETRIES
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    client: httpx.AsyncClient | None = None
    sleep: Sleep = asyncio.sleep


def reading(path: str, **params: str | int | bool | None) -> Request:
    """A request that only reads; parameters that are None are left out."""
    return Request("GET", path, repeatable=True, params=params)


class Connection:
    """Sends requests to one server. What is refused is an `OpenComputerError`, as everywhere in this SDK."""

    def __init__(self, endpoint: DurableEndpoint, options: Options | None = None) -> None:
        self.endpoint = endpoint
        self.options = options or Options()
        self._given = self.options.client
        self._made: httpx.AsyncClient | None = None
        self._closed = False

    async def send(self, request: Request) -> httpx.Response:
        """The successful answer, read in full.

        What may be repeated is, as often as the options say, after a network fault, 429, or 5xx.
        """
        attempts_left = max(0, self.options.retries) if request.repeatable else 0
        for attempt in range(attempts_left + 1):
            last = attempt == attempts_left
            try:
                response = await self._once(request)
            except httpx.TransportError:
                if last:
                    raise
                await self.options.sleep(_backoff(attempt))
                continue
            delay = None if last else retry_delay(response, attempt)
            if delay is None:
                return _checked(response)
            await self.options.sleep(delay)
        raise AssertionError("the last attempt returns or raises")

    async def json(self, request: Request) -> object:
        """The JSON of the successful answer."""
        return answers.parsed(await self.send(request))

    async def object(self, request: Request) -> JsonObject:
        """The JSON object of the successful answer; an empty one when it has no body."""
        response = await self.send(request)
        return answers.json_object(answers.parsed(response)) if response.content else {}

    @asynccontextmanager
    async def stream(self, path: str, params: Parameters, after: int) -> AsyncGenerator[httpx.Response]:
        """A live stream of events after one of them; never repeated here."""
        headers = {
            **self._headers(),
            "Accept": "text/event-stream",
            "Cache-Control": "no-cache",
            "Last-Event-ID": str(after),
        }
        async with self._client().stream(
            "GET",
            self._url(path),
            params=_query({**params, "after": after, "stream": "sse"}),
            headers=headers,
            timeout=httpx.Timeout(self.options.timeout_seconds, read=_SILENCE_SECONDS),
        ) as response:
            if not response.is_success:
                await response.aread()
                raise error_from(response)
            answers.check_events(response)
            yield response

    async def aclose(self) -> None:
        """Close the connections that were made here; may be called again."""
        self._closed = True
        if self._made is not None:
            await self._made.aclose()

    async def _once(self, request: Request) -> httpx.Response:
        return await self._client().request(
            request.method,
            self._url(request.path),
            params=_query(request.params),
            headers={**self._headers(), **_content_type(request), **request.headers},
            json=plain(request.json),
            content=b"null" if request.sends_null and request.json is None else request.content,
            timeout=self.options.timeout_seconds,
        )

    def _url(self, path: str) -> str:
        return path if path.startswith(("http://", "https://")) else f"{self.endpoint.base}{path}"

    def _headers(self) -> dict[str, str]:
        headers = {"x-oc-sdk-version": installed_version()}
        return (
            {**headers, "Authorization": f"Bearer {self.endpoint.token}"} if self.endpoint.token else headers
        )

    def _client(self) -> httpx.AsyncClient:
        if self._closed:
            raise ClientClosedError
        # Made at the first request: an `OpenComputer` that is never used opens nothing.
        if self._given is not None:
            return self._given
        if self._made is None:
            self._made = http_client(httpx.URL(self.endpoint.base))
        return self._made


def retry_delay(response: httpx.Response, attempt: int) -> float | None:
    """After how many seconds to send a repeatable request again; None when that would not help."""
    status = response.status_code
    if (status < 500 and status != _TOO_MANY_REQUESTS) or status == _NOT_IMPLEMENTED:
        return None
    asked = retry_after_seconds(response.headers)
    if not asked:
        return _backoff(attempt)
    return asked if asked <= _LONGEST_RETRY_AFTER_SECONDS else None


def _backoff(attempt: int) -> float:
    return min(_FIRST_DELAY_SECONDS * 2**attempt, _LONGEST_DELAY_SECONDS)


def _content_type(request: Request) -> dict[str, str]:
    return {"Content-Type": "application/json"} if request.sends_null else {}


def _query(params: Parameters) -> dict[str, str]:
    return {name: _text(value) for name, value in params.items() if value is not None}


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    raise error_from(response)
