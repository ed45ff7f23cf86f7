"""The HTTP connection to a server: credentials, limits, repeats and errors in one place."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace

from opencomputer.sdk.answers import is_json_object, parsed
from opencomputer.sdk.durable.bodies import plain
from opencomputer.sdk.endpoint import Endpoint
from opencomputer.sdk.errors import (
    AnswerLostError,
    ClientClosedError,
    NotFoundError,
    error_from,
    retry_after_seconds,
)
from opencomputer.sdk.http import httpx
from opencomputer.sdk.http_client import http_client
from opencomputer.sdk.version import installed_version

DEFAULT_TIMEOUT_SECONDS = 30.0
_REPEAT_DELAY_SECONDS = 0.25
_LONGEST_RETRY_AFTER_SECONDS = 30.0
_TOO_MANY_REQUESTS = 429
_UNAVAILABLE = 503
_FIRST_WAKE_DELAY_SECONDS = 0.5
_LONGEST_WAKE_DELAY_SECONDS = 3.0
_LONGEST_WAKE_SECONDS = 120.0
ASYNC_WAKE: Mapping[str, str] = {"X-OSB-Async-Wake": "1"}
"""The headers of a call that may be sent again and again while the sandbox wakes."""
_REPEATED_STATUSES = frozenset({500, 502, 503, 504})
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout)

Body = bytes | AsyncIterator[bytes]
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True)
class Call:
    """One request. `repeatable` says that sending it twice does no more than sending it once."""

    method: str
    path: str
    repeatable: bool = False
    json: object | None = None
    content: Body | None = None
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_seconds: float | None = DEFAULT_TIMEOUT_SECONDS


def get(path: str, params: Mapping[str, str] | None = None) -> Call:
    """A request that only reads."""
    return Call("GET", path, repeatable=True, params=params or {})


def post_once(path: str, json: object) -> Call:
    """A POST with its own idempotency key: repeated on a network fault, carried out once."""
    return Call("POST", path, repeatable=True, json=json, headers={"Idempotency-Key": secrets.token_hex(16)})


class ControlPlane:
    """Sends calls to one server with one key. Close it, or use it as a context manager.

    Raises `httpx.InvalidURL` for an address that is none.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        base = httpx.URL(endpoint.base)
        headers = {"x-oc-sdk-version": installed_version()}
        if endpoint.api_key:
            headers["X-API-Key"] = endpoint.api_key
        self.endpoint = endpoint
        self._sleep = sleep
        self._client = http_client(base, headers=headers, transport=transport)

    async def send(self, call: Call) -> httpx.Response:
        """Return the successful answer, read in full.

        Raises an `OpenComputerError` for an error status, an `httpx.TransportError` when no answer came. A
        repeatable call that meets a network fault or a passing condition of the server is sent once more; any
        other, but for a deletion or a streamed upload, only when the server was not reached at all.
        """
        delay = await self._first_attempt(call)
        if isinstance(delay, httpx.Response):
            return delay
        await self._sleep(delay)
        return _checked(await self._request(call))

    async def json(self, call: Call) -> object:
        """The JSON of the successful answer."""
        return parsed(await self.send(call))

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncGenerator[httpx.Response]:
        """The successful answer with its body still to be read; never repeated."""
        async with self._open().stream(
            call.method,
            call.path,
            params=dict(call.params),
            headers=dict(call.headers),
            json=plain(call.json),
            content=call.content,
            timeout=httpx.Timeout(DEFAULT_TIMEOUT_SECONDS, read=call.timeout_seconds),
        ) as response:
            if not response.is_success:
                await response.aread()
                raise error_from(response)
            with _told_apart(response.request):
                yield response

    async def aclose(self) -> None:
        """Close the connections; may be called again."""
        await self._client.aclose()

    async def __aenter__(self) -> ControlPlane:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _open(self) -> httpx.AsyncClient:
        if self._client.is_closed:
            raise ClientClosedError
        return self._client

    async def _first_attempt(self, call: Call) -> httpx.Response | float:
        """The answer, or after how many seconds to send the call again."""
        try:
            response = await self._request(call)
        except httpx.TransportError as error:
            if call.repeatable or (isinstance(error, _NEVER_SENT) and may_be_sent_late(call)):
                return _REPEAT_DELAY_SECONDS
            raise
        delay = repeat_delay(response) if call.repeatable else None
        return _checked(response) if delay is None else delay

    async def _request(self, call: Call) -> httpx.Response:
        """The answer, whatever it is; but a sandbox that wakes is waited for, where the call allows it."""
        delay, waited = _FIRST_WAKE_DELAY_SECONDS, 0.0
        while True:
            response = await self._once(call)
            if not is_waking(call, response) or waited >= _LONGEST_WAKE_SECONDS:
                return response
            await self._sleep(delay)
            waited += delay
            delay = min(2 * delay, _LONGEST_WAKE_DELAY_SECONDS)

    async def _once(self, call: Call) -> httpx.Response:
        return await self._open().request(
            call.method,
            call.path,
            params=dict(call.params),
            headers=dict(call.headers),
            json=plain(call.json),
            content=call.content,
            timeout=httpx.Timeout(DEFAULT_TIMEOUT_SECONDS, read=call.timeout_seconds),
        )


async def delete_if_there(plane: ControlPlane, path: str, params: Mapping[str, str] | None = None) -> None:
    """Delete what may be gone already."""
    try:
        await plane.send(Call("DELETE", path, repeatable=True, params=params or {}))
    except NotFoundError:
        return


def may_be_sent_late(call: Call) -> bool:
    """Whether a call that never reached the server may be sent again a moment later."""
    return call.method != "DELETE" and (call.content is None or isinstance(call.content, bytes))


def is_waking(call: Call, response: httpx.Response) -> bool:
    """Whether the server asks to come again, because the sandbox wakes meanwhile."""
    if response.status_code != _UNAVAILABLE or not ASYNC_WAKE.items() <= call.headers.items():
        return False
    try:
        body: object = response.json()
    except ValueError:
        return False
    return is_json_object(body) and body.get("waking") is True


def repeat_delay(response: httpx.Response) -> float | None:
    """After how many seconds a repeatable call should be sent again; None when that would not help."""
    asked = retry_after_seconds(response.headers)
    if asked is not None and asked > _LONGEST_RETRY_AFTER_SECONDS:
        return None
    if response.status_code in _REPEATED_STATUSES:
        return _REPEAT_DELAY_SECONDS if asked is None else asked
    return asked if response.status_code == _TOO_MANY_REQUESTS else None


def with_timeout(call: Call, seconds: float | None) -> Call:
    """The same call, waiting this long for an answer; None waits without limit."""
    return replace(call, timeout_seconds=seconds)


@contextmanager
def _told_apart(request: httpx.Request) -> Generator[None]:
    """Within this, that the answer to a request breaks off is told apart from getting none."""
    try:
        yield
    except (httpx.RemoteProtocolError, httpx.ReadError) as error:
        # What else is done meanwhile may fail as well.
        if error._request is not request:  # pyright: ignore[reportPrivateUsage] - the property raises
            raise
        raise AnswerLostError(str(error), request=request) from error


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    raise error_from(response)
