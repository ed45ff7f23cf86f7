"""A client waits for its login as the server says, and trusts no answer that it should not."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from opencomputer.sdk.device_login import DeviceLogin, LoginExpiredError, Waiting
from opencomputer.sdk.errors import OpenComputerError, UnexpectedAnswerError
from tests.support.login_server import AUTHORIZED, CREDENTIAL, KEY, PENDING

pytestmark = pytest.mark.anyio

PAGE = "https://oc.example/auth/cli/verify"
STARTED: dict[str, object] = {
    "device_code": "the-device-code",
    "user_code": "BCDF-GHJK",
    "verification_uri": PAGE,
    "verification_uri_complete": f"{PAGE}?code=BCDF-GHJK",
    "expires_in": 600,
    "interval": 5,
}
OUTAGE = (503, {"error": "later", "code": "auth_provider_unavailable"})


class Time:
    """Passes only where somebody waits."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def now(self) -> float:
        return sum(self.slept)


class Server:
    """Answers one exchange after the other; the last answer stays."""

    def __init__(self, *exchanges: tuple[int, object], **started: object) -> None:
        self.exchanges = list(exchanges)
        self.started = {name: value for name, value in (STARTED | started).items() if value is not None}
        self.time = Time()
        self.seen: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        if request.url.path == "/auth/cli/device":
            return httpx.Response(200, json=self.started)
        status, body = self.exchanges.pop(0) if len(self.exchanges) > 1 else self.exchanges[0]
        return httpx.Response(status, json=body)

    def client(self, api_url: str = "https://oc.example/api") -> DeviceLogin:
        waiting = Waiting(self.time.sleep, self.time.now)
        return DeviceLogin(api_url, waiting=waiting, transport=httpx.MockTransport(self))


async def signed_in(server: Server) -> str:
    async with server.client() as client:
        return (await client.credential(await client.start(), "oc CLI on laptop")).key


async def test_it_waits_before_each_question_and_longer_where_it_is_told_to() -> None:
    server = Server(
        PENDING, (202, {"status": "authorization_pending", "retry_after": 9}), PENDING, AUTHORIZED
    )
    assert await signed_in(server) == KEY
    assert server.time.slept == [5, 5, 9, 9]
    asked = server.seen[-1]
    assert (asked.method, str(asked.url)) == ("POST", "https://oc.example/auth/cli/device/exchange")
    assert json.loads(asked.content) == {
        "device_code": "the-device-code",
        "credential_name": "oc CLI on laptop",
    }


async def test_nobody_approves_in_time() -> None:
    server = Server(PENDING, expires_in=12)
    with pytest.raises(LoginExpiredError):
        await signed_in(server)
    assert server.time.slept == [5, 5, 5]


async def test_two_outages_in_a_row_are_tolerated() -> None:
    assert await signed_in(Server(OUTAGE, OUTAGE, PENDING, OUTAGE, OUTAGE, AUTHORIZED)) == KEY
    with pytest.raises(OpenComputerError, match="later"):
        await signed_in(Server(OUTAGE, OUTAGE, OUTAGE, AUTHORIZED))


@pytest.mark.parametrize("code", ["authorization_expired", "authorization_denied", "rate_limited"])
async def test_a_refusal_ends_it(code: str) -> None:
    with pytest.raises(OpenComputerError) as refused:
        await signed_in(Server((400, {"error": "no", "code": code}), AUTHORIZED))
    assert refused.value.code == code


@pytest.mark.parametrize(
    "started",
    [
        {"device_code": None},
        {"user_code": ""},
        {"expires_in": None},
        {"verification_uri": None},
        {"verification_uri_complete": "http://oc.example/verify"},
        {"verification_uri_complete": "https:///verify"},
        {"verification_uri_complete": "javascript:alert(1)"},
        {"verification_uri_complete": f"{PAGE}?code=the-device-code"},
        {"verification_uri": f"{PAGE}/the-device-code"},
    ],
)
async def test_a_beginning_that_cannot_be_trusted_is_refused(started: dict[str, object]) -> None:
    with pytest.raises(UnexpectedAnswerError):
        await signed_in(Server(AUTHORIZED, **started))


@pytest.mark.parametrize(
    ("api_url", "page"),
    [("http://127.0.0.1:8080", "http://127.0.0.1:8080/v"), ("http://oc.lan", "http://oc.lan/v")],
)
async def test_a_server_without_tls_has_its_page_there_too(api_url: str, page: str) -> None:
    server = Server(AUTHORIZED, verification_uri=page, verification_uri_complete=page)
    async with server.client(api_url) as client:
        assert (await client.start()).verification_uri == page


@pytest.mark.parametrize("key", ["", "osb_short", KEY.upper(), KEY + "0", None, 7])
async def test_a_key_that_is_none_is_refused(key: object) -> None:
    with pytest.raises(UnexpectedAnswerError, match="no valid API key"):
        await signed_in(Server((200, {"status": "authorized", "credential": CREDENTIAL | {"key": key}})))


@pytest.mark.parametrize(
    "answer",
    [
        lambda: httpx.Response(200, content=b" " * (65 << 10)),
        lambda: httpx.Response(302, headers={"Location": "https://evil.example"}),
        lambda: httpx.Response(200, content=b"<html>"),
        lambda: httpx.Response(200, json=[1]),
    ],
)
async def test_an_answer_that_is_none_is_refused(answer: Callable[[], httpx.Response]) -> None:
    seen: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(str(request.url))
        return answer()

    async with DeviceLogin("https://oc.example", transport=httpx.MockTransport(respond)) as client:
        with pytest.raises(UnexpectedAnswerError):
            await client.start()
    assert len(seen) == 1


@pytest.mark.parametrize(("status", "counts"), [(204, True), (401, True), (404, True), (500, False)])
async def test_a_key_that_does_not_count_any_more_is_revoked(status: int, counts: bool) -> None:
    async with Server((status, {"error": "no"})).client() as client:
        if counts:
            await client.revoke(KEY)
        else:
            with pytest.raises(OpenComputerError):
                await client.revoke(KEY)
