"""Whatever is sent to /v3, the answer is one of the contract's, and the server goes on."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.node import Api
from tests.support.rounds import rounds
from tests.support.session_world import AGENT, SessionWorld

pytestmark = pytest.mark.anyio

_leaf = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
_json = st.recursive(
    _leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
_FIELDS = [
    *(
        "agent",
        "input",
        "model",
        "revision",
        "key",
        "metadata",
        "limits",
        "webhook",
        "destinations",
        "sources",
    ),
    *("scopes", "ttl", "text", "envelope", "idempotency_key", "name", "prompt", "runtime", "credential"),
    *("provider", "is_default", "url", "level", "types", "secret", "include_raw", "enabled", "activate"),
    *("turn", "raw", "id", "refs", "default_repo"),
]
_body = st.dictionaries(st.sampled_from(_FIELDS), _json, max_size=6)
_NESTED = ("input", "envelope", "limits", "destinations")
_nested = st.dictionaries(st.sampled_from([*_FIELDS, "tokens", "turns", "turn_seconds"]), _json, max_size=4)


def check(sent: object, answer: httpx.Response) -> None:
    assert answer.status_code < 500 or answer.status_code in (501, 503), (sent, answer.text)
    if answer.status_code >= 400:
        error: dict[str, Any] = answer.json()["error"]
        assert error["type"] == error["code"]
        assert isinstance(error["message"], str)
        assert error["request_id"] == answer.headers["X-Request-Id"]
    elif answer.status_code != 204 and not answer.headers["Content-Type"].startswith("text/html"):
        # A client that gets a success parses it; the page about a hook's address is for people.
        answer.json()


def examples(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    collected: list[Any] = []

    @settings(max_examples=rounds(count))
    @given(strategy)
    def collect(example: Any) -> None:
        collected.append(example)

    collect()
    return collected


@pytest.mark.parametrize("path", ["/sessions", "/sessions/{id}/messages", "/sessions/{id}/client-tokens"])
async def test_any_object_is_accepted_or_refused(world: SessionWorld, path: str) -> None:
    session = await world.new()
    valid = {"agent": AGENT, "input": "hello"} if path == "/sessions" else {"text": "hello"}
    for sent in examples(st.tuples(_body, st.sampled_from(_NESTED), _nested, st.booleans()), 25):
        body, name, nested, complete = sent
        whole = {**(valid if complete else {}), **body, name: nested}
        content = json.dumps(whole).encode()
        check(whole, await world.client.post(path.replace("{id}", session), content=content))
        check(body, await world.client.post(path.replace("{id}", session), json={**body, **valid}))
    # Whatever was taken can be shown.
    check(path, await world.client.get("/sessions?limit=100"))


@pytest.mark.parametrize("path", ["/sessions", "/sessions/{id}/messages"])
async def test_any_bytes_are_accepted_or_refused(world: SessionWorld, path: str) -> None:
    session = await world.new()
    for content in examples(st.binary(max_size=60), 20):
        answer = await world.client.post(path.replace("{id}", session), content=content)
        assert answer.status_code in (400, 413, 415), answer.text
        check(content, answer)


@pytest.mark.parametrize("name", ["status", "agent", "key", "after", "before", "limit", "cursor", "unknown"])
async def test_any_query_is_accepted_or_refused(world: SessionWorld, name: str) -> None:
    for text in examples(st.text(max_size=40), 12):
        check((name, text), await world.client.get("/sessions", params={name: text}))


async def test_any_header_is_accepted_or_refused(world: SessionWorld) -> None:
    body = {"agent": AGENT, "input": "hello"}
    for value in examples(
        st.binary(max_size=300).filter(lambda value: not re.search(rb"[\0\r\n]", value)), 15
    ):
        for name in (b"idempotency-key", b"authorization", b"content-type", b"content-encoding", b"origin"):
            answer = await world.client.post("/sessions", json=body, headers=[(name, value)])
            check((name, value), answer)


async def test_every_route_takes_any_body_and_any_id(api: Api) -> None:
    """Of the whole server, with everything that it says it has."""
    schema: dict[str, Any] = (await api.client.get("/v3/openapi.json")).json()
    bodies = [{}, {"agent": "agt_none"}, *examples(_body.filter(lambda body: "agent" not in body), 3)]
    routes = [(method.upper(), path) for path, each in schema["paths"].items() for method in each]
    assert ("POST", "/v3/sessions") in routes
    for method, path in routes:
        for body in bodies:
            for id in ("nothing", "ses_" + "0" * 24, "%00"):
                target = re.sub(r"\{\w+\}", id, path)
                content = None if method == "GET" else json.dumps(body).encode()
                check((method, target, body), await api.client.request(method, target, content=content))
