"""The operator's provider, with a stand-in for the other end of the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from opencomputer.server.contracts.models import ModelInterrupted, ModelRequest
from opencomputer.server.models import upstream
from opencomputer.server.models.anthropic import AnthropicModel
from opencomputer.server.models.replies import MAX_REQUEST_BYTES
from tests.unit.server.models.asking import Answered, ask, messages, request

pytestmark = pytest.mark.anyio

KEY = "sk-operator"


class Upstream(httpx.AsyncBaseTransport):
    """Answers like the Messages API and notes what it was asked."""

    def __init__(self, answer: Callable[[httpx.Request], httpx.Response] | Exception | None = None) -> None:
        self.requests: list[httpx.Request] = []
        self.bodies: list[bytes] = []
        self._answer = answer

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        self.bodies.append(await request.aread())
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer(request) if self._answer else httpx.Response(200, stream=_Whole(b'{"ok": true}'))

    @property
    def headers(self) -> httpx.Headers:
        return self.requests[0].headers


class _Whole(httpx.AsyncByteStream):
    """A body that is there at once."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


class Stream(httpx.AsyncByteStream):
    """A body whose pieces the test releases one by one."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self.pieces.get()) is not None:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def aclose(self) -> None:
        self.closed = True


async def ask_with(upstream: Upstream, asked: ModelRequest | None = None) -> Answered:
    provider = AnthropicModel(KEY, base_url="https://models.example/base/", transport=upstream)
    try:
        return await ask(provider, asked or request(messages("x")))
    finally:
        await provider.close()


async def test_a_request_goes_on_with_the_operators_key() -> None:
    """Same path, same query, same body, below the base URL."""
    upstream = Upstream()
    answered = await ask_with(upstream, request(messages("x"), query="beta=true"))
    assert (answered.status, answered.json) == (200, {"ok": True})
    assert str(upstream.requests[0].url) == "https://models.example/base/v1/messages?beta=true"
    assert upstream.headers["x-api-key"] == KEY
    assert b'"claude-test"' in upstream.bodies[0]


async def test_the_apis_own_headers_pass_and_all_others_stay() -> None:
    """Whatever credential or address the caller sent is not the operator's to give."""
    upstream = Upstream()
    sent = [
        ("anthropic-version", "2023-06-01"),
        ("anthropic-beta", "a"),
        ("Anthropic-Beta", "b"),
        ("content-type", "application/json"),
        ("user-agent", "claude-cli/2"),
        ("X-Api-Key", "placeholder"),
        ("Authorization", "Bearer placeholder"),
        ("cookie", "c"),
        ("host", "169.254.169.254"),
        ("x-forwarded-for", "10.0.0.1"),
        ("connection", "upgrade"),
        ("accept-encoding", "gzip"),
    ]
    await ask_with(upstream, request(messages("x"), headers=sent))
    assert upstream.headers.get_list("anthropic-beta") == ["a", "b"]
    assert upstream.headers["anthropic-version"] == "2023-06-01"
    assert (upstream.headers.get_list("x-api-key"), upstream.headers["host"]) == ([KEY], "models.example")
    assert upstream.headers["accept-encoding"] == "identity"
    assert not {"authorization", "cookie", "x-forwarded-for"} & set(upstream.headers)


async def test_a_declared_length_is_kept() -> None:
    """So that the body need not be chunked."""
    upstream = Upstream()
    await ask_with(upstream, request(messages("x"), headers=[("content-length", "9")]))
    assert upstream.headers["content-length"] == "9"
    assert "transfer-encoding" not in upstream.headers


async def test_of_the_answers_headers_only_those_of_the_api_pass() -> None:
    """The operator's organisation and the connection's own headers do not."""
    headers = {
        "content-type": "text/event-stream",
        "request-id": "r",
        "retry-after": "3",
        "anthropic-ratelimit-requests-remaining": "7",
        "anthropic-organization-id": "the operator's",
        "set-cookie": "c",
        "connection": "close",
        "server": "s",
    }
    answered = await ask_with(Upstream(lambda _: httpx.Response(429, headers=headers, stream=_Whole(b""))))
    assert answered.status == 429
    assert set(answered.headers) >= {"content-type", "request-id", "retry-after"}
    assert not {"anthropic-organization-id", "set-cookie", "connection", "server"} & set(answered.headers)


async def test_an_answer_is_passed_on_piece_by_piece() -> None:
    """The first piece arrives before the second one exists."""
    stream = Stream()
    upstream = Upstream(lambda _: httpx.Response(200, stream=stream))
    async with AnthropicModel(KEY, transport=upstream).answer(request(messages("x"))) as response:
        chunks = aiter(response.chunks)
        stream.pieces.put_nowait(b"one")
        assert await anext(chunks) == b"one"
        stream.pieces.put_nowait(b"two")
        assert await anext(chunks) == b"two"
    assert stream.closed


async def test_a_broken_answer_is_broken_off() -> None:
    """The caller must not take a part for the whole."""
    stream = Stream()
    stream.pieces.put_nowait(httpx.ReadError("gone"))
    upstream = Upstream(lambda _: httpx.Response(200, stream=stream))
    with pytest.raises(ModelInterrupted):
        await ask_with(upstream)


@pytest.mark.parametrize(
    ("failure", "status", "kind"),
    [
        (httpx.ConnectError("refused"), 502, "api_error"),
        (httpx.RemoteProtocolError("nonsense"), 502, "api_error"),
        (httpx.ReadTimeout("slow"), 504, "timeout_error"),
    ],
)
async def test_a_provider_that_cannot_be_reached_is_an_error_of_the_api(
    failure: Exception, status: int, kind: str
) -> None:
    """Which the engine understands and retries; it names no addresses."""
    answered = await ask_with(Upstream(failure))
    assert (answered.status, answered.json["error"]["type"]) == (status, kind)
    assert "models.example" not in answered.body.decode()


async def test_without_a_key_every_request_is_refused() -> None:
    """And the provider says beforehand that it would."""
    upstream = Upstream()
    provider = AnthropicModel(None, transport=upstream)
    answered = await ask(provider, request(messages("x")))
    assert (provider.available, answered.status, upstream.requests) == (False, 503, [])
    assert AnthropicModel(KEY, transport=upstream).available


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/files"), ("GET", "/v1/organizations"), ("POST", "/v1/models")]
)
async def test_the_key_opens_nothing_but_models(method: str, path: str) -> None:
    """Other operations never reach the provider."""
    upstream = Upstream()
    answered = await ask_with(upstream, request({}, method=method, path=path))
    assert (answered.status, upstream.requests) == (404, [])


async def test_the_list_of_models_is_asked_for_without_a_body() -> None:
    """Whatever length the caller declared."""
    upstream = Upstream()
    await ask_with(upstream, request(method="GET", path="/v1/models", headers=[("content-length", "5")]))
    assert (upstream.bodies, upstream.headers.get("content-length")) == ([b""], None)


async def test_too_large_a_request_is_refused() -> None:
    """While it is passed on, not after it has been collected."""
    provider = AnthropicModel(KEY, transport=Upstream())
    answered = await ask(provider, request(b"x" * (MAX_REQUEST_BYTES + 2)))
    assert (answered.status, answered.json["error"]["type"]) == (413, "request_too_large")


async def test_a_caller_that_stops_sending_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not hold a connection for ever."""
    monkeypatch.setattr(upstream, "BODY_CHUNK_SECONDS", 0.01)
    never = asyncio.Event()

    async def stalled() -> AsyncIterator[bytes]:
        yield b"{"
        await never.wait()

    asked = request()
    asked = type(asked)(asked.method, asked.path, asked.query, asked.headers, stalled())
    answered = await ask(AnthropicModel(KEY, transport=Upstream()), asked)
    assert answered.status == 408
