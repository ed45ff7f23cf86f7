"""Requests carry their key, are repeated where that is safe, and fail by code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import MappingProxyType

import httpx
import pytest

from opencomputer import (
    AuthError,
    ConflictError,
    NotFoundError,
    NotSupportedError,
    OpenComputer,
    OpenComputerError,
    RateLimitError,
    UnavailableError,
    UnexpectedAnswerError,
    ValidationError,
)
from opencomputer.sdk.durable.agents import Agents
from opencomputer.sdk.durable.connection import Connection, Request, reading
from opencomputer.sdk.durable.credentials import Credentials
from opencomputer.sdk.durable.github import GitHubApps
from opencomputer.sdk.durable.sessions import Sessions
from opencomputer.sdk.durable.starters import Schedules
from opencomputer.sdk.durable.watches import Watches
from opencomputer.sdk.durable.webhooks_of_session import Destinations
from opencomputer.sdk.errors import ClientClosedError
from tests.unit.sdk.durable.answers import Answer, Answers, refusal

pytestmark = pytest.mark.anyio


async def test_every_request_carries_the_key_as_a_bearer() -> None:
    server = Answers(httpx.Response(200, json={}))
    async with server.connection() as connection:
        await connection.object(reading("/sessions", limit=5, cursor=None))
    assert server.last.headers["authorization"] == "Bearer osb_key"
    assert str(server.last.url) == "http://node.test/v3/sessions?limit=5"


@pytest.mark.parametrize(
    "fault",
    [httpx.ConnectError("refused"), httpx.ReadError("cut"), refusal(500, "internal"), refusal(429, "x")],
)
async def test_what_only_reads_is_sent_three_times_with_growing_delays(fault: Answer) -> None:
    server = Answers(fault, fault, httpx.Response(200, json={"id": "x"}))
    async with server.connection() as connection:
        assert await connection.object(reading("/x")) == {"id": "x"}
    assert server.slept == [0.5, 1.0]


async def test_the_fourth_sending_does_not_come() -> None:
    server = Answers(*[refusal(503, "unavailable")] * 3)
    async with server.connection() as connection:
        with pytest.raises(OpenComputerError, match="unavailable"):
            await connection.send(reading("/x"))
    assert len(server.requests) == 3


async def test_the_server_says_when_to_come_again() -> None:
    late = refusal(503, "unavailable", **{"Retry-After": "7"})
    server = Answers(late, httpx.Response(200, json={}))
    async with server.connection() as connection:
        await connection.send(reading("/x"))
    assert server.slept == [7.0]


@pytest.mark.parametrize("answer", [refusal(501, "not_implemented"), refusal(404, "not_found")])
async def test_what_would_not_help_is_not_repeated(answer: httpx.Response) -> None:
    server = Answers(answer)
    async with server.connection() as connection:
        with pytest.raises(OpenComputerError):
            await connection.send(reading("/x"))
    assert server.slept == []


async def test_what_may_do_harm_twice_is_not_repeated() -> None:
    server = Answers(httpx.ReadError("cut"))
    async with server.connection() as connection:
        with pytest.raises(httpx.ReadError):
            await connection.send(Request("POST", "/sessions/ses_1/cancel"))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ValidationError),
        (401, AuthError),
        (403, AuthError),
        (404, NotFoundError),
        (409, ConflictError),
        (422, ValidationError),
        (501, NotSupportedError),
        (418, OpenComputerError),
    ],
)
async def test_refusals_are_told_apart(status: int, kind: type[OpenComputerError]) -> None:
    server = Answers(refusal(status, "because", "agent", **{"X-Request-Id": "req_1"}))
    async with server.connection() as connection:
        with pytest.raises(kind) as raised:
            await connection.send(Request("POST", "/x"))
    error = raised.value
    assert (error.status, error.code, error.param) == (status, "because", "agent")
    assert (error.message, error.request_id) == ("it is because", "req_1")


async def test_too_many_requests_say_when_to_come_again() -> None:
    server = Answers(refusal(429, "rate_limited", **{"Retry-After": "3"}))
    async with server.connection() as connection:
        with pytest.raises(RateLimitError) as raised:
            await connection.send(Request("POST", "/x"))
    assert raised.value.retry_after_seconds == 3


async def test_a_page_instead_of_a_list_is_an_unexpected_answer() -> None:
    page = httpx.Response(200, html="<p>Sign in</p>")
    lists: list[Callable[[Connection], Awaitable[object]]] = [
        lambda one: Credentials(one).list(),
        lambda one: Destinations(one, "ses_1").list(),
        lambda one: Watches(one, "ses_1").list(),
        lambda one: Schedules(one).list("agt_1"),
        lambda one: GitHubApps(one).list(),
        lambda one: Agents(one).list_managed_slack_connections(),
    ]
    for listing in lists:
        async with Answers(page).connection() as connection:
            with pytest.raises(UnexpectedAnswerError, match="did not answer with JSON"):
                await listing(connection)


async def test_what_was_closed_says_so() -> None:
    oc = OpenComputer("osb_key", base_url="http://node.test")
    await oc.aclose()
    with pytest.raises(ClientClosedError):
        await oc.agents.list()


async def test_closing_a_session_leaves_the_client_open() -> None:
    server = Answers(httpx.Response(200, json={"id": "ses_1"}), httpx.Response(200, json={"data": []}))
    async with server.connection() as connection:
        async with await Sessions(connection).get("ses_1") as session:
            assert session.id == "ses_1"
        assert [*await Agents(connection).list()] == []


async def test_fewer_than_no_repeats_are_none() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(503))
    async with httpx.AsyncClient(transport=transport) as client:
        oc = OpenComputer("osb_key", base_url="http://node.test", max_retries=-1, http_client=client)
        with pytest.raises(UnavailableError):
            await oc.agents.list()


async def test_mappings_of_every_kind_are_sent() -> None:
    server = Answers(httpx.Response(201, json={"session": {"id": "ses_1"}}))
    async with server.connection() as connection:
        metadata = MappingProxyType({"order": MappingProxyType({"number": (1, 2)})})
        await Sessions(connection).create(agent="agt_1", input="go", metadata=metadata)
    assert server.body["metadata"] == {"order": {"number": [1, 2]}}
