"""`/v3/sessions`: creating (agent-sessions.md section 3.12)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.domain.sessions.errors import (
    AgentNotDeployed,
    ManagedUnavailable,
    ModelRuntimeMismatch,
    NoCredential,
)
from opencomputer.server.domain.sessions.events import EventFilter
from opencomputer.server.domain.sessions.session import SessionLimits
from opencomputer.wire.ids import SessionId
from tests.api.v3.answers import error_of, ok
from tests.support.session_world import AGENT, SessionWorld

pytestmark = pytest.mark.anyio

_MOMENT = re.compile(r"2026-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def test_a_new_session_is_queued_with_its_input_as_the_first_event(world: SessionWorld) -> None:
    made = await world.create(metadata={"thread": 7, "Camel": [None]})
    session = made["session"]
    assert re.fullmatch(r"ses_[0-9a-f]{24}", session["id"])
    assert (session["status"], session["head"], session["input_cursor"]) == ("queued", 1, 0)
    assert (session["agent_id"], session["credential_id"]) == (AGENT, "managed")
    assert session["metadata"] == {"thread": 7, "Camel": [None]}
    assert session["agent_snapshot"] == {
        "prompt_hash": "sha256:p",
        "model": "anthropic/claude",
        "runtime": "claude",
        "revision": 1,
        "revision_id": "rev_" + "0b" * 12,
        "version": 2,
        "digest": "sha256:d",
        "skill_bundle_digest": None,
    }
    assert session["last_turn"].keys() == {"id", "state"}
    assert session["last_turn"]["state"] == "queued"
    assert (session["limits"], session["sandboxes"]) == (None, None)
    assert "key" not in session
    assert "origin" not in session
    assert _MOMENT.fullmatch(session["created_at"])
    assert _MOMENT.fullmatch(session["updated_at"])
    assert made["sources"] == []
    assert made["client_token"].startswith("eyJ")
    [event] = await world.tables.log.read(SessionId(session["id"]), EventFilter(), after=0, limit=10)
    assert (event.seq, event.type, event.level, dict(event.body)) == (
        1,
        "user.message",
        "user",
        {"text": "hello"},
    )
    assert (event.actor.type, event.actor.id, event.source) == ("human", "api", "client")
    assert event.turn_id == session["last_turn"]["id"]


async def test_a_session_is_shown_bare_and_as_it_was_created(world: SessionWorld) -> None:
    session = (await world.create(key="k"))["session"]
    assert session["key"] == "k"
    assert ok(await world.client.get(f"/sessions/{session['id']}")) == session


async def test_usage_before_any_turn_has_ended_says_only_that(world: SessionWorld) -> None:
    assert (await world.create())["session"]["usage"] == {
        "active_seconds": 0,
        "reported_turns": 0,
        "unreported_turns": 0,
        "complete": True,
    }


async def test_an_envelope_may_stand_for_the_text(world: SessionWorld) -> None:
    envelope = {"text": "hi", "raw": None, "source": "slack", "conversation": {"id": 1}, "refs": {"a": 1}}
    session = await world.new(input=envelope)
    [event] = await world.tables.log.read(SessionId(session), EventFilter(), after=0, limit=10)
    assert dict(event.body) == {"text": "hi", "raw": None}
    assert dict(event.refs) == {"source": "slack", "conversation": {"id": 1}, "a": 1}


async def test_a_sessions_own_limits_stand_before_its_agents(world: SessionWorld) -> None:
    world.agents.limits = SessionLimits(tokens=1000, turns=3)
    session = (await world.create(limits={"tokens": 5, "turn_seconds": None}))["session"]
    assert session["limits"] == {"tokens": 5, "turns": 3}
    assert (await world.create())["session"]["limits"] == {"tokens": 1000, "turns": 3}


async def test_model_and_revision_are_the_callers_choice(world: SessionWorld) -> None:
    session = (await world.create(model="anthropic/other", revision=4))["session"]
    assert session["agent_snapshot"]["model"] == "anthropic/other"
    await world.create(revision="rev_" + "0" * 24)
    assert world.agents.pins == [(4, "anthropic/other"), ("rev_" + "0" * 24, None)]


async def test_webhooks_are_there_before_the_first_event(world: SessionWorld) -> None:
    session = await world.new(
        webhook="https://a.example/hook",
        destinations=[
            {"url": "https://b.example/", "level": "internal", "types": ["turn.*"], "include_raw": True},
            {"url": "https://c.example/", "types": [], "enabled": False, "unknown": 1},
        ],
    )
    found = await world.tables.destinations.list(SessionId(session))
    by_url = {each.url: each for each in found}
    assert {url.split("/")[2] for url in by_url} == {"a.example", "b.example", "c.example"}
    hook, b, c = (by_url[url] for url in sorted(by_url))
    assert (hook.level, hook.types, hook.include_raw, hook.enabled) == ("user", None, False, True)
    assert (b.level, b.types, b.include_raw, b.enabled) == ("internal", ("turn.*",), True, True)
    assert (c.types, c.enabled) == (None, False)
    assert all(each.created_after_seq == 0 and not each.secrets for each in found)


INVALID: list[tuple[dict[str, Any], int, str, str]] = [
    ({"agent": None}, 400, "invalid", "agent"),
    ({"agent": 5}, 400, "invalid", "agent"),
    ({"agent": ""}, 400, "invalid", "agent"),
    ({"agent": "a\0b"}, 400, "invalid", "agent"),
    ({"input": None}, 400, "invalid", "input"),
    ({"input": 5}, 400, "invalid", "input"),
    ({"input": []}, 400, "invalid", "input"),
    ({"input": {}}, 400, "invalid", "input.text"),
    ({"input": {"text": None}}, 400, "invalid", "input.text"),
    ({"input": {"text": "a", "refs": []}}, 400, "invalid", "input.refs"),
    ({"input": ""}, 400, "invalid", "input"),
    ({"input": " \n"}, 400, "invalid", "input"),
    ({"input": "x" * 262_145}, 413, "payload_too_large", "input"),
    ({"input": "ü" * 131_073}, 413, "payload_too_large", "input"),
    ({"model": 1}, 400, "invalid", "model"),
    ({"revision": "7"}, 400, "invalid", "revision"),
    ({"revision": 0}, 400, "invalid", "revision"),
    ({"revision": True}, 400, "invalid", "revision"),
    ({"revision": 1.5}, 400, "invalid", "revision"),
    ({"key": ""}, 400, "invalid", "key"),
    ({"key": "x" * 256}, 400, "invalid", "key"),
    ({"key": "ü"}, 400, "invalid", "key"),
    ({"key": "a\nb"}, 400, "invalid", "key"),
    ({"key": 7}, 400, "invalid", "key"),
    ({"metadata": []}, 400, "invalid", "metadata"),
    ({"metadata": "text"}, 400, "invalid", "metadata"),
    ({"metadata": {"a": "x" * 16_384}}, 413, "payload_too_large", "metadata"),
    ({"limits": 5}, 400, "invalid", "limits"),
    ({"limits": {"tokens": 0}}, 400, "invalid", "limits.tokens"),
    ({"limits": {"tokens": "5"}}, 400, "invalid", "limits.tokens"),
    ({"limits": {"turn_seconds": -1}}, 400, "invalid", "limits.turn_seconds"),
    ({"limits": {"turns": 1.5}}, 400, "invalid", "limits.turns"),
    ({"limits": {"turns": True}}, 400, "invalid", "limits.turns"),
    ({"limits": {"turns": 2**70}}, 400, "invalid", "limits.turns"),
    ({"webhook": 5}, 400, "invalid", "webhook"),
    ({"webhook": "https://10.0.0.1/"}, 422, "destination_url_forbidden", "webhook"),
    (
        {"destinations": [{"url": "https://a/"}, {"url": "https://10.0.0.1/"}]},
        422,
        "destination_url_forbidden",
        "destinations.1.url",
    ),
    ({"destinations": {}}, 400, "invalid", "destinations"),
    ({"destinations": [{}]}, 400, "invalid", "destinations.0.url"),
    ({"destinations": [{"url": "https://a/", "level": "all"}]}, 400, "invalid", "destinations.0.level"),
    ({"destinations": [{"url": "https://a/", "types": "turn.*"}]}, 400, "invalid", "destinations.0.types"),
    ({"destinations": [{"url": "https://a/"}] * 21}, 422, "limit_reached", "destinations"),
    ({"sources": [{"repo": "a/b", "ref": "HEAD"}]}, 501, "not_implemented", "sources"),
    ({"scopes": ["write"]}, 400, "invalid", "scopes"),
    ({"scopes": []}, 400, "invalid", "scopes"),
    ({"scopes": "read"}, 400, "invalid", "scopes"),
    ({"ttl": 59}, 400, "invalid", "ttl"),
    ({"ttl": 86_401}, 400, "invalid", "ttl"),
    ({"ttl": "3600"}, 400, "invalid", "ttl"),
    ({"agent": "agt_nothing"}, 404, "not_found", ""),
]


@pytest.mark.parametrize(("fields", "status", "code", "param"), INVALID)
async def test_what_does_not_fit_is_refused_by_name_and_makes_nothing(
    world: SessionWorld, fields: dict[str, Any], status: int, code: str, param: str
) -> None:
    answer = await world.client.post("/sessions", json={"agent": AGENT, "input": "hello", **fields})
    error_of(answer, status, code, param or None)
    assert ok(await world.client.get("/sessions"))["data"] == []


FITTING: list[dict[str, Any]] = [
    {"input": "x" * 262_144},
    {"metadata": {"a": "x" * (16_384 - 8)}},
    {"metadata": {}},
    {"key": "~" * 255},
    {"sources": []},
    {"scopes": ["steer"], "ttl": 60},
    {"ttl": 86_400, "unknown": {"a": 1}},
    {"model": None, "revision": None, "key": None, "metadata": None, "limits": None, "webhook": None},
    {"destinations": [{"url": "https://a.example/"}] * 20},
    {"metadata": {"nul": "\0", "deep": [[[[{}]]]], "big": 2**80, "ü": "🙂"}},
]


@pytest.mark.parametrize("fields", FITTING)
async def test_what_just_fits_is_accepted(world: SessionWorld, fields: dict[str, Any]) -> None:
    session = (await world.create(**fields))["session"]
    assert session["metadata"] == fields.get("metadata")


BODIES: list[tuple[bytes, dict[str, str], int, str]] = [
    (b"", {}, 400, "invalid"),
    (b"[]", {}, 400, "invalid"),
    (b"null", {}, 400, "invalid"),
    (b'{"agent":', {}, 400, "invalid"),
    (b"\xff", {}, 400, "invalid"),
    (b'{"input":"\\ud800"}', {}, 400, "invalid"),
    (b'{"metadata":{"a":NaN}}', {}, 400, "invalid"),
    (b'{"metadata":{"a":1e999}}', {}, 400, "invalid"),
    (b"[" * 5000, {}, 400, "invalid"),
    (b"{}", {"Content-Type": "text/plain"}, 415, "unsupported_media_type"),
    (b"{}", {"Content-Type": "application/json; charset=utf-16"}, 415, "unsupported_media_type"),
    (b"{}", {"Content-Encoding": "gzip"}, 415, "unsupported_media_type"),
    (b" " * ((4 << 20) + 1), {}, 413, "payload_too_large"),
]


@pytest.mark.parametrize(("content", "headers", "status", "code"), BODIES)
async def test_what_is_no_json_object_is_refused(
    world: SessionWorld, content: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    sent = {"Content-Type": "application/json", **headers}
    error_of(await world.client.post("/sessions", content=content, headers=sent), status, code)


@pytest.mark.parametrize("media_type", ["application/json; charset=UTF-8", "application/x+json", None])
async def test_json_is_taken_under_its_names_and_under_none(
    world: SessionWorld, media_type: str | None
) -> None:
    headers = {} if media_type is None else {"Content-Type": media_type}
    content = f'{{"agent":"{AGENT}","input":"hi"}}'.encode()
    ok(await world.client.post("/sessions", content=content, headers=headers), 201)


async def test_a_body_of_no_announced_length_is_cut_off_at_the_cap(world: SessionWorld) -> None:
    async def endless() -> AsyncGenerator[bytes]:
        for _ in range(100):
            yield b" " * (1 << 20)

    answer = await world.client.post("/sessions", content=endless())
    error_of(answer, 413, "payload_too_large")


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (AgentNotDeployed(), 422),
        (NoCredential(), 422),
        (ManagedUnavailable(), 422),
        (ModelRuntimeMismatch(), 422),
    ],
)
async def test_an_agent_that_cannot_start_a_session_says_why(
    world: SessionWorld, failure: OpenComputerError, status: int
) -> None:
    made = await world.create(key="before")
    world.agents.failure = failure
    body = {"agent": AGENT, "input": "hello"}
    error_of(await world.client.post("/sessions", json=body), status, failure.code)
    # What was accepted before is answered as before.
    replay = await world.client.post("/sessions", json={**body, "key": "before"})
    assert ok(replay)["session"]["id"] == made["session"]["id"]


async def test_a_key_makes_one_session_for_good(world: SessionWorld) -> None:
    body = {"agent": AGENT, "input": "hello", "key": "thread-1", "metadata": {"b": 1, "a": 2}}
    made = ok(await world.client.post("/sessions", json=body), 201)
    world.clock.advance(30 * 86_400)
    again = ok(await world.client.post("/sessions", json=dict(reversed(body.items()))))
    assert again["session"] == made["session"]
    assert again["client_token"] != made["client_token"]
    reordered = {**body, "metadata": {"a": 2, "b": 1}}
    assert ok(await world.client.post("/sessions", json=reordered))["session"] == made["session"]
    others: list[dict[str, Any]] = [{"input": "bye"}, {"metadata": {}}, {"unknown": 1}, {"ttl": 60}]
    for other in others:
        error = error_of(
            await world.client.post("/sessions", json={**body, **other}), 409, "idempotency_conflict"
        )
        assert "create key" in error["message"]
    stranger = ok(await world.other.post("/sessions", json=body), 201)
    assert stranger["session"]["id"] != made["session"]["id"]


async def test_a_replay_tells_how_the_session_is_now(world: SessionWorld) -> None:
    made = await world.create(key="k")
    ok(await world.client.post(f"/sessions/{made['session']['id']}/archive"))
    again = ok(await world.client.post("/sessions", json={"agent": AGENT, "input": "hello", "key": "k"}))
    assert again["session"]["status"] == "archived"


async def test_the_header_makes_a_retry_safe(world: SessionWorld) -> None:
    body, headers = {"agent": AGENT, "input": "hello"}, {"Idempotency-Key": "try 1"}
    made = ok(await world.client.post("/sessions", json=body, headers=headers), 201)
    again = ok(await world.client.post("/sessions", json=body, headers=headers))
    assert again["session"]["id"] == made["session"]["id"]
    other = await world.client.post("/sessions", json={**body, "input": "bye"}, headers=headers)
    error_of(other, 409, "idempotency_conflict")
    assert ok(await world.other.post("/sessions", json=body, headers=headers), 201)["session"] != made
    # What was refused is not remembered.
    headers = {"Idempotency-Key": "try 2"}
    refused = await world.client.post("/sessions", json={**body, "ttl": 5}, headers=headers)
    error_of(refused, 400, "invalid", "ttl")
    ok(await world.client.post("/sessions", json=body, headers=headers), 201)


@pytest.mark.parametrize("key", ["", "x" * 256, "t\tb"])
async def test_a_header_that_is_no_key_is_refused(world: SessionWorld, key: str) -> None:
    body = {"agent": AGENT, "input": "hello"}
    answer = await world.client.post("/sessions", json=body, headers={"Idempotency-Key": key})
    error_of(answer, 400, "invalid", "Idempotency-Key")


@pytest.mark.parametrize("how", ["key", "header"])
async def test_twenty_creates_at_once_with_one_key_make_one_session(world: SessionWorld, how: str) -> None:
    body = {"agent": AGENT, "input": "hello"} | ({"key": "k"} if how == "key" else {})
    headers = {"Idempotency-Key": "k"} if how == "header" else {}
    answers = await asyncio.gather(
        *(world.client.post("/sessions", json=body, headers=headers) for _ in range(20))
    )
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
    assert len({answer.json()["session"]["id"] for answer in answers}) == 1
    assert len(ok(await world.client.get("/sessions"))["data"]) == 1


async def test_without_a_key_each_create_is_a_session(world: SessionWorld) -> None:
    made = {await world.new() for _ in range(3)}
    assert len(made) == 3
