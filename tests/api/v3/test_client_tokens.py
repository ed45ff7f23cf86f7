"""Client tokens: one session, for a while, and only what their scopes say (agent-sessions.md section 2.3)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import jwt
import pytest

from tests.api.v3.answers import error_of, ok
from tests.api.v3.test_sessions import OF_A_SESSION
from tests.support.session_world import SessionWorld

pytestmark = pytest.mark.anyio


async def mint(world: SessionWorld, session: str, **body: Any) -> dict[str, Any]:
    return ok(await world.client.post(f"/sessions/{session}/client-tokens", json=body), 201)


async def steered(world: SessionWorld, token: str, session: str) -> Any:
    async with world.bearing(token) as browser:
        return await browser.post(f"/sessions/{session}/messages", json={"text": "hi"})


async def test_a_token_says_what_it_is_good_for(world: SessionWorld) -> None:
    session = await world.new()
    for answer in (
        await mint(world, session),
        ok(await world.client.post(f"/sessions/{session}/client-tokens"), 201),
    ):
        assert answer["token"] == answer["client_token"]
        assert answer["scopes"] == ["read", "steer"]
        left = datetime.fromisoformat(answer["expires_at"]) - world.clock.now()
        assert left.total_seconds() == 3600
        claims = jwt.decode(answer["token"], options={"verify_signature": False})
        assert claims.keys() == {"sub", "own", "scp", "iat", "exp", "jti", "aud"}
        assert (claims["sub"], claims["own"], claims["aud"]) == (session, world.org_id, "oc-session")
        assert claims["scp"] == ["read", "steer"]
        assert claims["exp"] - claims["iat"] == 3600
        assert jwt.get_unverified_header(answer["token"])["alg"] == "HS256"


async def test_a_create_shapes_the_token_it_gives(world: SessionWorld) -> None:
    made = await world.create(scopes=["read"], ttl=60)
    claims = jwt.decode(made["client_token"], options={"verify_signature": False})
    assert (claims["scp"], claims["exp"] - claims["iat"]) == (["read"], 60)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"ttl": 59}, "ttl"),
        ({"ttl": 86_401}, "ttl"),
        ({"ttl": True}, "ttl"),
        ({"ttl": 60.5}, "ttl"),
        ({"ttl": 2**80}, "ttl"),
        ({"scopes": ["admin"]}, "scopes"),
        ({"scopes": ["read", 1]}, "scopes.1"),
        ({"scopes": []}, "scopes"),
        ({"scopes": "read"}, "scopes"),
    ],
)
async def test_no_token_for_longer_or_for_more(world: SessionWorld, body: dict[str, Any], param: str) -> None:
    answer = await world.client.post(f"/sessions/{await world.new()}/client-tokens", json=body)
    error_of(answer, 400, "invalid", param)


async def test_a_token_ends_when_it_said(world: SessionWorld) -> None:
    session = await world.new()
    token = (await mint(world, session, ttl=60))["token"]
    world.clock.advance(59)
    ok(await steered(world, token, session), 202)
    world.clock.advance(1)
    error_of(await steered(world, token, session), 401, "unauthorized")


async def test_a_token_is_for_its_session_only(world: SessionWorld) -> None:
    mine, other = await world.new(), await world.new()
    token = (await mint(world, mine))["token"]
    error_of(await steered(world, token, other), 403, "forbidden")
    error_of(await steered(world, token, "ses_nothing"), 403, "forbidden")


async def test_reading_is_no_steering(world: SessionWorld) -> None:
    session = await world.new()
    token = (await mint(world, session, scopes=["read"]))["token"]
    error_of(await steered(world, token, session), 403, "forbidden")
    token = (await mint(world, session, scopes=["steer", "steer"]))["token"]
    ok(await steered(world, token, session), 202)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *((method, "/sessions/{id}" + path) for method, path in OF_A_SESSION if path != "/messages"),
        ("GET", "/sessions"),
        ("POST", "/sessions"),
        ("GET", "/repos"),
    ],
)
async def test_a_token_opens_nothing_else_not_even_of_its_own_session(
    world: SessionWorld, method: str, path: str
) -> None:
    made = await world.create()
    async with world.bearing(made["client_token"]) as browser:
        answer = await browser.request(method, path.replace("{id}", made["session"]["id"]))
        error_of(answer, 403, "forbidden")


async def test_a_token_in_the_query_does_not_let_anybody_steer(world: SessionWorld) -> None:
    made = await world.create()
    async with world.bearing(None) as browser:
        url = f"/sessions/{made['session']['id']}/messages"
        answer = await browser.post(url, params={"token": made["client_token"]}, json={"text": "hi"})
        error_of(answer, 401, "unauthorized")


async def test_a_token_is_no_key(world: SessionWorld) -> None:
    made = await world.create()
    async with world.bearing(None) as browser:
        url = f"/sessions/{made['session']['id']}/messages"
        headers = {"X-API-Key": made["client_token"]}
        error_of(await browser.post(url, headers=headers, json={"text": "hi"}), 401, "unauthorized")


async def test_a_changed_token_is_none(world: SessionWorld) -> None:
    made = await world.create()
    head, body, signature = made["client_token"].split(".")
    claims = jwt.decode(made["client_token"], options={"verify_signature": False})
    for forged in (
        f"{head}.{body}.{signature[:-4]}AAAA",
        f"eyJhbGciOiJub25lIn0.{body}.",
        jwt.encode({**claims, "scp": ["read", "steer"]}, "another secret, just as long as it.."),
        "eyJ",
    ):
        error_of(await steered(world, forged, made["session"]["id"]), 401, "unauthorized")


async def test_archiving_leaves_tokens_valid_but_nothing_to_steer(world: SessionWorld) -> None:
    made = await world.create()
    session = made["session"]["id"]
    ok(await world.client.post(f"/sessions/{session}/archive"))
    error_of(await steered(world, made["client_token"], session), 409, "session_archived")
    assert (await mint(world, session))["scopes"] == ["read", "steer"]
