"""Calls reach the server with their credential, are repeated where that is safe, and fail by code."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from opencomputer import (
    AuthError,
    ConflictError,
    NotFoundError,
    NotSupportedError,
    OpenComputerError,
    RateLimitError,
    SandboxStoppedError,
    UnavailableError,
    UnexpectedAnswerError,
    ValidationError,
)
from opencomputer.sdk.control_plane import ASYNC_WAKE, Call, ControlPlane, get, post_once
from opencomputer.sdk.endpoint import Endpoint
from opencomputer.sdk.errors import AnswerLostError, ClientClosedError

pytestmark = pytest.mark.anyio

Answer = httpx.Response | httpx.TransportError


class Server:
    """Answers with the given answers in turn and remembers the requests and the sleeps between them."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.slept: list[float] = []

    def plane(self) -> ControlPlane:
        endpoint = Endpoint("http://node.test/api", "osb_key")
        return ControlPlane(endpoint, transport=httpx.MockTransport(self.answer), sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, httpx.TransportError):
            raise answer
        return answer


def unavailable(**headers: str) -> httpx.Response:
    return httpx.Response(503, json={"error": "no capacity", "code": "no_capacity"}, headers=headers)


async def test_every_call_carries_the_key_and_the_version() -> None:
    server = Server(httpx.Response(200, json={}))
    async with server.plane() as plane:
        await plane.send(get("/sandboxes"))
    request = server.requests[0]
    assert str(request.url) == "http://node.test/api/sandboxes"
    assert request.headers["x-api-key"] == "osb_key"
    assert request.headers["x-oc-sdk-version"]


@pytest.mark.parametrize(
    "fault",
    [
        httpx.ConnectError("refused"),
        httpx.ReadError("reset"),
        unavailable(),
        httpx.Response(500, text="an intermediary"),
    ],
)
async def test_a_passing_fault_is_met_with_one_repeat_after_a_quarter_second(fault: Answer) -> None:
    server = Server(fault, httpx.Response(200, json={"ok": True}))
    async with server.plane() as plane:
        assert await plane.json(get("/x")) == {"ok": True}
    assert server.slept == [0.25]


async def test_a_second_fault_is_raised() -> None:
    server = Server(httpx.ConnectError("refused"), httpx.ConnectError("refused"))
    async with server.plane() as plane:
        with pytest.raises(httpx.ConnectError):
            await plane.send(get("/x"))
    assert len(server.requests) == 2


async def test_both_attempts_of_a_post_carry_the_same_idempotency_key() -> None:
    server = Server(httpx.ReadError("reset"), httpx.Response(201, json={}))
    async with server.plane() as plane:
        await plane.send(post_once("/sandboxes", {"templateID": "base"}))
    keys = {request.headers["idempotency-key"] for request in server.requests}
    assert len(server.requests) == 2
    assert len(keys) == 1


async def test_two_posts_have_different_idempotency_keys() -> None:
    server = Server(httpx.Response(201, json={}), httpx.Response(201, json={}))
    async with server.plane() as plane:
        await plane.send(post_once("/sandboxes", {}))
        await plane.send(post_once("/sandboxes", {}))
    keys = {request.headers["idempotency-key"] for request in server.requests}
    assert len(keys) == 2


@pytest.mark.parametrize(
    "fault", [httpx.ReadError("reset"), unavailable(), unavailable(**{"Retry-After": "1"})]
)
async def test_a_call_that_is_not_repeatable_is_sent_once(fault: Answer) -> None:
    server = Server(fault)
    async with server.plane() as plane:
        with pytest.raises(httpx.HTTPError):
            await plane.send(Call("DELETE", "/sandboxes/sb-1"))
    assert len(server.requests) == 1
    assert server.slept == []


@pytest.mark.parametrize("fault", [httpx.ConnectError("refused"), httpx.ConnectTimeout("slow")])
async def test_what_never_reached_the_server_is_sent_again_whatever_it_is(fault: Answer) -> None:
    server = Server(fault, httpx.Response(200, json={"ok": True}))
    async with server.plane() as plane:
        assert await plane.json(Call("POST", "/x", json={})) == {"ok": True}
    assert server.slept == [0.25]


async def pieces() -> AsyncIterator[bytes]:
    yield b"one"


@pytest.mark.parametrize(
    "call",
    [Call("DELETE", "/sandboxes/sb-1"), Call("PUT", "/files", content=pieces())],
    ids=lambda c: c.method,
)
async def test_deletions_and_streamed_uploads_never_are(call: Call) -> None:
    server = Server(httpx.ConnectError("refused"))
    async with server.plane() as plane:
        with pytest.raises(httpx.ConnectError):
            await plane.send(call)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [429, 503])
async def test_the_servers_retry_after_is_honoured(status: int) -> None:
    busy = httpx.Response(status, json={"error": "busy"}, headers={"Retry-After": "2"})
    server = Server(busy, httpx.Response(200, json={}))
    async with server.plane() as plane:
        await plane.send(get("/x"))
    assert server.slept == [2.0]


async def test_a_retry_after_beyond_patience_is_raised_at_once() -> None:
    server = Server(unavailable(**{"Retry-After": "3600"}))
    async with server.plane() as plane:
        with pytest.raises(UnavailableError) as raised:
            await plane.send(get("/x"))
    assert raised.value.retry_after_seconds == 3600


@pytest.mark.parametrize("status", [400, 409, 429, 501, 507])
async def test_other_errors_are_not_repeated(status: int) -> None:
    server = Server(httpx.Response(status, json={"error": "no"}))
    async with server.plane() as plane:
        with pytest.raises(OpenComputerError):
            await plane.send(get("/x"))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_request", ValidationError),
        (400, "", ValidationError),
        (401, "unauthorized", AuthError),
        (403, "forbidden", AuthError),
        (404, "not_found", NotFoundError),
        (404, "file_not_found", NotFoundError),
        (409, "conflict", ConflictError),
        (409, "idempotency_mismatch", ConflictError),
        (410, "sandbox_stopped", SandboxStoppedError),
        (502, "machine_lost", SandboxStoppedError),
        (429, "concurrency_limit", RateLimitError),
        (501, "not_supported", NotSupportedError),
        (507, "disk_full", OpenComputerError),
        (500, "internal", OpenComputerError),
    ],
)
async def test_the_error_is_told_by_code_and_status(
    status: int, code: str, kind: type[OpenComputerError]
) -> None:
    server = Server(httpx.Response(status, json={"error": "said the server", "code": code}))
    async with server.plane() as plane:
        with pytest.raises(kind) as raised:
            await plane.send(Call("POST", "/x"))
    assert type(raised.value) is kind
    assert (raised.value.message, raised.value.code) == ("said the server", code)
    assert raised.value.response.status_code == status


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (httpx.Response(400, json={"error": {"type": "t", "message": "nested"}}), "nested"),
        (httpx.Response(400, text="plain words"), "plain words"),
        (httpx.Response(400, json=["odd"]), '["odd"]'),
        (httpx.Response(400, content=b""), "Bad Request"),
    ],
)
async def test_every_form_of_error_body_gives_a_message(response: httpx.Response, message: str) -> None:
    async with Server(response).plane() as plane:
        with pytest.raises(ValidationError) as raised:
            await plane.send(get("/x"))
    assert raised.value.message == message


async def test_the_errors_of_httpx_catch_ours() -> None:
    async with Server(httpx.Response(404, json={"error": "gone"})).plane() as plane:
        with pytest.raises(httpx.HTTPStatusError):
            await plane.send(get("/x"))


async def test_an_answer_that_is_not_json_is_named_as_such() -> None:
    async with Server(httpx.Response(200, text="<html>")).plane() as plane:
        with pytest.raises(UnexpectedAnswerError):
            await plane.json(get("/x"))


async def test_a_refused_stream_raises_with_the_servers_text() -> None:
    async with Server(httpx.Response(404, json={"error": "no file"})).plane() as plane:
        with pytest.raises(NotFoundError, match="no file"):
            async with plane.stream(get("/files")):
                pass


async def test_no_key_means_no_header() -> None:
    server = Server(httpx.Response(200, json={}))
    plane = ControlPlane(Endpoint("http://node.test/api", ""), transport=httpx.MockTransport(server.answer))
    async with plane:
        await plane.send(get("/x"))
    assert "x-api-key" not in server.requests[0].headers


# A sandbox that wakes


def waking() -> httpx.Response:
    return httpx.Response(503, json={"error": "waking", "code": "not_ready", "waking": True})


def patient(repeatable: bool = False) -> Call:
    return Call("GET", "/x", repeatable, headers=ASYNC_WAKE)


@pytest.mark.parametrize("repeatable", [True, False])
async def test_a_sandbox_that_wakes_is_asked_again_at_growing_intervals(repeatable: bool) -> None:
    server = Server(*(waking() for _ in range(5)), httpx.Response(200, json={"ok": True}))
    async with server.plane() as plane:
        assert await plane.json(patient(repeatable)) == {"ok": True}
    assert server.slept == [0.5, 1.0, 2.0, 3.0, 3.0]


async def test_after_two_minutes_one_does_not_ask_any_more() -> None:
    server = Server(*(waking() for _ in range(50)))
    async with server.plane() as plane:
        with pytest.raises(UnavailableError):
            await plane.send(patient())
    assert 120 <= sum(server.slept) <= 123


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (Call("GET", "/x"), waking()),
        (patient(), unavailable()),
        (patient(), httpx.Response(503, text="<html>")),
    ],
)
async def test_only_calls_that_said_so_wait_and_only_for_waking(call: Call, answer: httpx.Response) -> None:
    server = Server(answer)
    async with server.plane() as plane:
        with pytest.raises(UnavailableError):
            await plane.send(call)
    assert server.slept == []


class _Broken(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"the first half"
        raise httpx.RemoteProtocolError("peer closed connection")


async def test_an_answer_that_breaks_off_is_told_apart_from_none() -> None:
    server = Server(httpx.Response(200, stream=_Broken()))
    async with server.plane() as plane:
        with pytest.raises(AnswerLostError):
            async with plane.stream(get("/files")) as response:
                await response.aread()


async def test_what_else_fails_while_an_answer_is_read_stays_what_it_is() -> None:
    server = Server(httpx.Response(200, text="x"), httpx.RemoteProtocolError("none"))
    async with server.plane() as plane:
        with pytest.raises(httpx.RemoteProtocolError) as caught:
            async with plane.stream(get("/files")):
                await plane.send(Call("POST", "/other"))
        assert not isinstance(caught.value, AnswerLostError)


async def test_a_closed_client_says_that_it_is_closed() -> None:
    server = Server()
    plane = server.plane()
    await plane.aclose()
    with pytest.raises(ClientClosedError, match="closed"):
        await plane.send(get("/sandboxes"))
    with pytest.raises(ClientClosedError):
        async with plane.stream(get("/sandboxes")):
            pass


async def test_a_page_of_something_between_is_no_message() -> None:
    server = Server(httpx.Response(502, html="<html><h1>Bad gateway</h1></html>"))
    async with server.plane() as plane:
        with pytest.raises(UnavailableError) as raised:
            await plane.send(Call("POST", "/x"))
    assert raised.value.message == "Bad Gateway"
