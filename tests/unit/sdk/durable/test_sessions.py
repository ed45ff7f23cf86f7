"""Sessions: what is sent, what is given back."""

from __future__ import annotations

import json

import httpx
import pytest

from opencomputer import Session
from opencomputer.durable import SessionData
from opencomputer.sdk.durable.sessions import Sessions
from tests.unit.sdk.durable.answers import Answers, event_body, session_body
from tests.unit.sdk.durable.test_streams import frame, stream

pytestmark = pytest.mark.anyio


def created() -> httpx.Response:
    session = session_body(metadata={"a": {"bC": 1}})
    return httpx.Response(201, json={"session": session, "client_token": "eyJ", "sources": []})


async def test_creating_is_repeated_with_one_key_so_that_there_is_one_session() -> None:
    server = Answers(httpx.ReadError("cut"), created())
    async with server.connection() as connection:
        session = await Sessions(connection).create(agent="agt_1", input="go", metadata={"a": {"bC": 1}})
    first, second = (request.headers["idempotency-key"] for request in server.requests)
    assert first == second
    assert server.body == {"agent": "agt_1", "input": "go", "metadata": {"a": {"bC": 1}}}
    assert (session.id, session.status, session.client_token) == ("ses_1", "queued", "eyJ")
    assert session.metadata == {"a": {"bC": 1}}


async def test_a_session_with_a_key_needs_no_other() -> None:
    server = Answers(created())
    async with server.connection() as connection:
        await Sessions(connection).create(agent="agt_1", input="go", key="order-7", limits={"turns": 3})
    assert "idempotency-key" not in server.last.headers
    assert server.body["key"] == "order-7"


async def test_lists_go_on_with_the_same_filters() -> None:
    server = Answers(
        httpx.Response(200, json={"data": [session_body()], "next_cursor": "c1"}),
        httpx.Response(200, json={"data": [session_body(id="ses_2")], "next_cursor": None}),
    )
    async with server.connection() as connection:
        page = await Sessions(connection).list(status="idle", limit=1)
        assert [each.id async for each in page] == ["ses_1", "ses_2"]
    assert [dict(request.url.params) for request in server.requests] == [
        {"status": "idle", "limit": "1"},
        {"status": "idle", "limit": "1", "cursor": "c1"},
    ]


async def test_events_are_paged_by_their_seq() -> None:
    server = Answers(
        httpx.Response(200, json={"data": [event_body(1), event_body(2)], "next_cursor": "2"}),
        httpx.Response(200, json={"data": [event_body(3)], "next_cursor": None}),
    )
    async with server.connection() as connection:
        session = Session(connection, SessionData.read(session_body()))
        page = await session.list_events(type="agent.*", turn_id="trn_1")
        assert [event.seq async for event in page] == [1, 2, 3]
    assert dict(server.last.url.params) == {"after": "2", "type": "agent.*", "turn_id": "trn_1"}


async def test_what_is_said_has_a_key_of_its_own() -> None:
    accepted = {
        "event": {"id": "evt_4", "seq": "4"},
        "session": {"id": "ses_1", "status": "queued", "head": 4},
    }
    server = Answers(httpx.ConnectError("no"), *(httpx.Response(202, json=accepted) for _ in range(3)))
    async with server.connection() as connection:
        session = Session(connection, SessionData.read(session_body()))
        said = await session.steer("also do that")
        keys = {json.loads(request.content)["idempotency_key"] for request in server.requests}
        assert (said.id, said.seq, len(keys)) == ("evt_4", 4, 1)
        await session.steer("again", idempotency_key="mine")
        assert server.body == {"text": "again", "idempotency_key": "mine"}
        await session.steer_envelope({"text": "hi", "id": "m-1", "raw": {"x": 1}})
    assert server.body == {"envelope": {"text": "hi", "id": "m-1", "raw": {"x": 1}}, "idempotency_key": "m-1"}


async def test_waiting_ends_with_the_work() -> None:
    result = {"last_turn": {"id": "trn_1", "state": "ok"}, "result": event_body(5, text="done")}
    server = Answers(
        httpx.Response(200, json=session_body(status="running", head=2)),
        stream(frame(3), frame(4, "turn.completed", yield_reason="completed")),
        httpx.Response(200, json=session_body(status="idle", head=4)),
        httpx.Response(200, json=result),
    )
    async with server.connection() as connection:
        session = Session(connection, SessionData.read(session_body()))
        outcome = await session.wait(timeout=5)
    assert (outcome.text, session.status) == ("done", "idle")
    assert server.requests[1].url.params["after"] == "2"


async def test_waiting_for_one_that_rests_takes_no_time() -> None:
    server = Answers(
        httpx.Response(200, json=session_body(status="awaiting_input")),
        httpx.Response(200, json={"last_turn": None, "result": None}),
    )
    async with server.connection() as connection:
        outcome = await Session(connection, SessionData.read(session_body())).wait()
    assert (outcome.last_turn, outcome.text) == (None, "")


async def test_verbs_send_no_body_and_show_what_became_of_it() -> None:
    done = {"ok": True, "session": {"id": "ses_1", "status": "archived", "head": 3}}
    server = Answers(
        httpx.Response(200, json=done), httpx.Response(200, json=session_body(status="archived"))
    )
    async with server.connection() as connection:
        session = await Session(connection, SessionData.read(session_body())).archive()
    assert session.status == "archived"
    assert server.requests[0].content == b""


async def test_a_fork_is_a_session_of_its_own() -> None:
    fork = session_body(id="ses_2", origin={"session": "ses_1", "turn": "trn_1"})
    server = Answers(
        httpx.ReadError("cut"), httpx.Response(201, json={"session": fork, "client_token": "eyJ2"})
    )
    async with server.connection() as connection:
        forked = await Session(connection, SessionData.read(session_body())).fork("trn_1")
    assert server.body == {"turn": "trn_1"}
    assert len({request.headers["idempotency-key"] for request in server.requests}) == 1
    assert (forked.id, forked.client_token) == ("ses_2", "eyJ2")
    assert forked.data.origin == {"session": "ses_1", "turn": "trn_1"}


async def test_client_tokens_are_found_under_both_names() -> None:
    server = Answers(
        httpx.Response(201, json={"token": "a"}), httpx.Response(201, json={"client_token": "b"})
    )
    async with server.connection() as connection:
        session = Session(connection, SessionData.read(session_body()))
        assert await session.mint_client_token() == "a"
        assert await session.mint_client_token(["read"], ttl_seconds=60) == "b"
    assert server.body == {"scopes": ["read"], "ttl": 60}


async def test_webhooks_tell_what_stays_from_what_is_cleared() -> None:
    destination = {"id": "dst_1", "url": "https://a", "types": None}
    deliveries = {"data": [{"id": "dlv_1", "status": "dead_letter"}], "next_cursor": None}
    server = Answers(
        httpx.Response(201, json=destination),
        httpx.Response(200, json=destination),
        httpx.Response(200, json=deliveries),
        httpx.Response(202, json={"id": "dlv_1", "status": "pending"}),
    )
    async with server.connection() as connection:
        session = Session(connection, SessionData.read(session_body()))
        await session.destinations.create("https://a", secret="s")
        assert server.body == {"url": "https://a", "secret": "s"}
        await session.destinations.update("dst_1", types=None)
        assert server.body == {"types": None}
        assert [each.status for each in await session.deliveries.list(status="dead_letter")] == [
            "dead_letter"
        ]
        assert (await session.deliveries.redeliver("dlv_1")).status == "pending"
