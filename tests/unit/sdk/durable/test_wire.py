"""The client against a server that answers what a test wrote down, one request after the other."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast

import httpx
import pytest

from opencomputer import ConflictError, NotSupportedError, OpenComputer, RateLimitError
from opencomputer.durable import Page, Record
from tests.unit.sdk.durable.answers import refusal
from tests.unit.sdk.durable.cases import CASES, REPO, RUN, Case, session

pytestmark = pytest.mark.anyio


class Server:
    """Answers what it is told to, and remembers the requests."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.answers: list[httpx.Response] = []
        self.client = OpenComputer(
            "osb_key",
            base_url="http://node.test",
            http_client=httpx.AsyncClient(transport=httpx.MockTransport(self._answer), trust_env=False),
        )

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self.answers.pop(0)


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    async def at_once(_: float) -> None:
        return

    server = Server()
    object.__setattr__(server.client.connection.options, "sleep", at_once)
    yield server
    assert server.answers == []


def found(outcome: object, path: str) -> object:
    for name in path.split("."):
        match outcome:
            case Mapping():
                outcome = cast("Mapping[str, object]", outcome)[name]
            case Sequence() if name.isdigit():
                outcome = cast("Sequence[object]", outcome)[int(name)]
            case _:
                outcome = getattr(outcome, name)
    return outcome


def answered(case: Case) -> httpx.Response:
    return (
        httpx.Response(case.status) if case.answer is None else httpx.Response(case.status, json=case.answer)
    )


@pytest.mark.parametrize("name", CASES)
async def test_a_call_sends_what_it_should_and_reads_the_answer(server: Server, name: str) -> None:
    case = CASES[name]
    server.answers = [answered(case)]
    outcome = await case.call(server.client)
    (request,) = server.requests
    assert f"{request.method} {request.url.path}" == case.request.replace(" ", " /v3")
    assert dict(request.url.params) == case.query
    assert (json.loads(request.content) if request.content else None) == case.body
    assert request.headers["authorization"] == "Bearer osb_key"
    assert {path: found(outcome, path) for path in case.outcome} == case.outcome


@pytest.mark.parametrize("name", CASES)
async def test_only_what_may_be_sent_twice_is(server: Server, name: str) -> None:
    case = CASES[name]
    refused = refusal(502, "internal")
    server.answers = [refused, answered(case)] if case.repeated else [refused]
    if case.repeated:
        await case.call(server.client)
        keys = [request.headers.get("idempotency-key") for request in server.requests]
        assert keys[0] == keys[1]
        assert server.requests[0].method == "GET" or server.requests[0].content == server.requests[1].content
    else:
        with pytest.raises(httpx.HTTPStatusError):
            await case.call(server.client)


@pytest.mark.parametrize("name", CASES)
async def test_a_server_without_that_part_says_so(server: Server, name: str) -> None:
    server.answers = [refusal(501, "not_implemented")]
    with pytest.raises(NotSupportedError):
        await CASES[name].call(server.client)


async def test_an_agent_is_invoked_at_its_url_with_any_json(server: Server) -> None:
    receipt = {
        "request_id": "req_1",
        "session": {"id": "ses_1", "status": "queued", "head": "1"},
        "client_token": "eyJ",
        "links": {"events": "https://node.test/v3/sessions/ses_1/events"},
        "replayed": True,
    }
    url = "https://agt-1.agents.test"
    agent = httpx.Response(200, json={"id": "agt_1", "invoke_url": url})
    server.answers = [agent, refusal(503, "unavailable"), httpx.Response(202, json=receipt)]
    invocation = await server.client.agents.invoke("agt_1", {"any": 1}, idempotency_key="k1")
    asked, first, second = server.requests
    assert asked.url.path == "/v3/agents/agt_1"
    assert [str(each.url) for each in (first, second)] == [f"{url}/"] * 2
    assert json.loads(second.content) == {"any": 1}
    assert {each.headers["idempotency-key"] for each in (first, second)} == {"k1"}
    assert (invocation.session_id, invocation.replayed, invocation.session) == (
        "ses_1",
        True,
        {"id": "ses_1", "status": "queued", "head": 1},
    )


async def test_null_is_a_payload_too(server: Server) -> None:
    server.answers = [httpx.Response(202, json={"request_id": "req_1"})]
    await server.client.agents.invoke("http://agents.test/a/agt-1/", None)
    (request,) = server.requests
    assert (str(request.url), request.content) == ("http://agents.test/a/agt-1/", b"null")
    assert request.headers["content-type"] == "application/json"


async def test_a_page_of_runs_leads_to_the_next(server: Server) -> None:
    pages = [{"runs": [RUN], "next_cursor": "c2"}, {"runs": [{**RUN, "id": "srn_2"}], "next_cursor": None}]
    server.answers = [httpx.Response(200, json=each) for each in pages]
    runs: Page[Any] = await server.client.agents.schedules.runs("agt_1", "sch_1")
    assert [run.id async for run in runs] == ["srn_1", "srn_2"]
    assert server.requests[1].url.params["cursor"] == "c2"


async def test_unknown_members_and_the_whole_answer_are_kept(server: Server) -> None:
    server.answers = [httpx.Response(200, json={**REPO, "stars": 3})]
    repo: Record = await server.client.repos.get("repo_1")
    assert repo.extra == {"stars": 3}
    assert repo.raw == {**REPO, "stars": 3}


async def test_an_error_says_all_that_the_server_said(server: Server) -> None:
    server.answers = [refusal(409, "source_changed_re_review", "review.sha")]
    with pytest.raises(ConflictError) as caught:
        await CASES["repository.import_"].call(server.client)
    error = caught.value
    assert (error.code, error.type, error.param) == (
        "source_changed_re_review",
        "source_changed_re_review",
        "review.sha",
    )
    assert error.request_id == "req_1"


async def test_a_limited_caller_is_told_when_to_come_again(server: Server) -> None:
    server.answers = [refusal(429, "rate_limited", **{"Retry-After": "120"})]
    with pytest.raises(RateLimitError) as caught:
        await server.client.repos.get("repo_1")
    assert caught.value.retry_after == 120


async def test_an_accepted_message_is_its_id_and_its_place(server: Server) -> None:
    server.answers = [httpx.Response(202, json={"event": {"id": "evt_2", "seq": "2"}})]
    id, seq = await session(server.client).steer("more")
    assert (id, seq) == ("evt_2", 2)
