"""`POST /v3/sessions/:id/messages` (agent-sessions.md section 3.15)."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from opencomputer.server.domain.sessions.events import Event, EventFilter
from opencomputer.wire.ids import SessionId
from tests.api.v3.answers import error_of, ok
from tests.support.session_world import AGENT, SessionWorld

pytestmark = pytest.mark.anyio


async def post(world: SessionWorld, session: str, body: Any, **options: Any) -> httpx.Response:
    return await world.client.post(f"/sessions/{session}/messages", json=body, **options)


async def events(world: SessionWorld, session: str) -> list[Event]:
    return list(await world.tables.log.read(SessionId(session), EventFilter(), after=0, limit=100))


async def test_a_text_is_accepted_as_the_next_event(world: SessionWorld) -> None:
    session = await world.new()
    answer = ok(await post(world, session, {"text": "and now?"}), 202)
    first, second = await events(world, session)
    assert answer == {
        "event": {"id": second.id, "seq": 2},
        "session": {"id": session, "status": "queued", "head": 2},
    }
    assert (second.type, second.level, dict(second.body)) == ("user.message", "user", {"text": "and now?"})
    assert (second.actor.type, second.actor.id, second.source) == ("human", "api", "client")
    assert second.refs == {}
    # Nobody has begun with the first one: one turn takes both.
    assert second.turn_id == first.turn_id


async def test_an_envelope_keeps_what_belongs_to_the_text(world: SessionWorld) -> None:
    session = await world.new()
    raw = {"camelCase": {"snake_case": [1, None, "ü"]}}
    envelope = {
        "text": "hi",
        "raw": raw,
        "id": "m-1",
        "source": "slack",
        "conversation": "C1",
        "refs": {"conversation": "C2", "ts": 1.5},
        "actor": {"type": "system", "id": "root"},
    }
    ok(await post(world, session, {"envelope": envelope}), 202)
    event = (await events(world, session))[-1]
    assert dict(event.body) == {"text": "hi", "raw": raw}
    assert dict(event.refs) == {"source": "slack", "conversation": "C2", "ts": 1.5}
    assert (event.actor.type, event.actor.id) == ("human", "api")


async def test_who_speaks_is_told_by_the_credential(world: SessionWorld) -> None:
    made = await world.create()
    session = made["session"]["id"]
    async with world.bearing(made["client_token"]) as browser:
        ok(await browser.post(f"/sessions/{session}/messages", json={"text": "hi"}), 202)
    event = (await events(world, session))[-1]
    assert (event.actor.type, event.actor.id) == ("human", "client")


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        ({"text": "hi", "idempotency_key": "k"}, {}),
        ({"envelope": {"text": "hi", "id": "k"}}, {}),
        ({"text": "hi"}, {"Idempotency-Key": "k"}),
        ({"envelope": {"text": "hi", "id": "other"}, "idempotency_key": "k"}, {"Idempotency-Key": "third"}),
        ({"envelope": {"text": "hi", "id": "k"}}, {"Idempotency-Key": "third"}),
    ],
)
async def test_the_same_key_is_one_event(
    world: SessionWorld, body: dict[str, Any], headers: dict[str, str]
) -> None:
    session, other = await world.new(), await world.new()
    first = ok(await post(world, session, body, headers=headers), 202)
    again = ok(await post(world, session, body, headers=headers), 200)
    assert again == first
    # Wherever the key stands, and whatever else has changed meanwhile.
    ok(await post(world, session, {"text": "more"}), 202)
    replay = ok(await post(world, session, {"text": "hi", "idempotency_key": "k"}), 200)
    assert replay["event"] == first["event"]
    assert replay["session"]["head"] == 3
    error_of(await post(world, session, {"text": "bye", "idempotency_key": "k"}), 409, "idempotency_conflict")
    # Keys are each session's own.
    ok(await post(world, other, body, headers=headers), 202)
    assert len(await events(world, session)) == 3


async def test_a_key_that_looks_like_the_servers_own_is_just_a_key(world: SessionWorld) -> None:
    session = await world.new()
    for key in (f"rt:trn_{'0' * 24}:1", "input:k", "k"):
        ok(await post(world, session, {"text": "hi", "idempotency_key": key}), 202)
    assert len(await events(world, session)) == 4


async def test_twenty_at_once_with_one_key_are_one_event(world: SessionWorld) -> None:
    session = await world.new()
    body = {"text": "hi", "idempotency_key": "k"}
    answers = await asyncio.gather(*(post(world, session, body) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [202]
    assert len({answer.json()["event"]["id"] for answer in answers}) == 1


async def test_many_at_once_are_in_the_log_without_gap_or_loss(world: SessionWorld) -> None:
    session = await world.new()
    answers = await asyncio.gather(*(post(world, session, {"text": str(number)}) for number in range(20)))
    assert sorted(ok(answer, 202)["event"]["seq"] for answer in answers) == list(range(2, 22))


INVALID: list[tuple[Any, int, str, str | None]] = [
    ({}, 400, "invalid", "text"),
    ({"text": None}, 400, "invalid", "text"),
    ({"text": "hi", "envelope": {"text": "hi"}}, 400, "invalid", "text"),
    ({"text": ""}, 400, "invalid", "text"),
    ({"text": " \t"}, 400, "invalid", "text"),
    ({"text": 5}, 400, "invalid", "text"),
    ({"text": "x" * 262_145}, 413, "payload_too_large", "text"),
    ({"envelope": {}}, 400, "invalid", "envelope.text"),
    ({"envelope": "hi"}, 400, "invalid", "envelope"),
    ({"envelope": {"text": ""}}, 400, "invalid", "envelope.text"),
    ({"envelope": {"text": "hi", "id": ""}}, 400, "invalid", "envelope.id"),
    ({"envelope": {"text": "hi", "id": 5}}, 400, "invalid", "envelope.id"),
    ({"envelope": {"text": "hi", "refs": "x"}}, 400, "invalid", "envelope.refs"),
    ({"text": "hi", "idempotency_key": "ü"}, 400, "invalid", "idempotency_key"),
    ({"text": "hi", "idempotency_key": ""}, 400, "invalid", "idempotency_key"),
    ([], 400, "invalid", None),
]


@pytest.mark.parametrize(("body", "status", "code", "param"), INVALID)
async def test_what_does_not_fit_is_refused_by_name(
    world: SessionWorld, body: Any, status: int, code: str, param: str | None
) -> None:
    session = await world.new()
    error_of(await post(world, session, body), status, code, param)
    assert len(await events(world, session)) == 1


async def test_a_long_text_is_whole_in_the_events_content(world: SessionWorld) -> None:
    session = await world.new()
    answer = ok(await post(world, session, {"text": "y" * 262_144}), 202)
    event = (await events(world, session))[-1]
    assert event.content_ref is not None
    content = await world.tables.log.content(SessionId(session), answer["event"]["id"])
    assert content is not None
    assert b"y" * 262_144 in content.data


async def test_an_archived_session_takes_no_more_but_answers_for_what_it_took(world: SessionWorld) -> None:
    session = await world.new()
    body = {"text": "hi", "idempotency_key": "k"}
    taken = ok(await post(world, session, body), 202)
    ok(await world.client.post(f"/sessions/{session}/archive"))
    error_of(await post(world, session, {"text": "more"}), 409, "session_archived")
    assert ok(await post(world, session, body), 200)["event"] == taken["event"]


async def test_a_session_whose_agent_was_deleted_takes_no_more(world: SessionWorld) -> None:
    session = await world.new()
    world.agents.deleted = True
    error_of(await post(world, session, {"text": "hi"}), 409, "agent_deleted")
    assert ok(await world.client.get(f"/sessions/{session}"))["agent_id"] == AGENT
