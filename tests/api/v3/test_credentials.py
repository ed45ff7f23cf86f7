"""Keys for models over HTTP: they come in, and never out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.v3.test_agents import ask
from tests.api.v3.test_foundation import error_of
from tests.support.node import Api

pytestmark = pytest.mark.anyio

KEY = "sk-canary-0123456789abcd"
MEMBERS = {"id", "provider", "name", "last4", "is_default", "created_at"}


async def test_a_credential_is_made_shown_rotated_and_deleted(api: Api) -> None:
    made = await ask(api, "POST", "/credentials", 201, {"key": KEY, "name": "prod"})
    assert set(made) == MEMBERS
    assert (made["provider"], made["name"], made["last4"]) == ("anthropic", "prod", "abcd")
    assert made["is_default"] is False
    listed = await ask(api, "GET", "/credentials", 200)
    assert listed["next_cursor"] is None
    assert made in listed["data"]
    path = f"/credentials/{made['id']}"
    rotated = await ask(api, "PATCH", path, 200, {"key": "sk-canary-other-wxyz"})
    assert rotated == {**made, "last4": "wxyz"}
    await ask(api, "DELETE", path, 204)
    for method, body in (("PATCH", {"key": KEY}), ("DELETE", None)):
        answer = await api.client.request(method, f"/v3{path}", json=body)
        error_of(answer, 404, "not_found")
    assert made["id"] not in str(await ask(api, "GET", "/credentials", 200))


async def test_each_provider_has_one_default(api: Api) -> None:
    bodies: list[dict[str, Any]] = [
        {"key": KEY, "is_default": True},
        {"key": KEY, "is_default": True, "name": None},
        {"key": KEY, "provider": "openai", "is_default": True},
        {"key": KEY},
    ]
    made = [await ask(api, "POST", "/credentials", 201, body) for body in bodies]

    async def defaults() -> list[bool]:
        shown = (await ask(api, "GET", "/credentials", 200))["data"]
        return [each["is_default"] for each in shown]

    assert await defaults() == [False, True, True, False]
    chosen = await ask(api, "PUT", "/credentials/default", 200, {"credential": made[3]["id"]})
    assert chosen == {**made[3], "is_default": True}
    assert await defaults() == [False, False, True, True]
    body = {"credential": made[0]["id"], "provider": "openai"}
    refused = await api.client.put("/v3/credentials/default", json=body)
    assert error_of(refused, 422, "credential_mismatch")["param"] == "provider"
    unknown = await api.client.put("/v3/credentials/default", json={"credential": "managed"})
    error_of(unknown, 404, "not_found")
    for each in made:
        await ask(api, "DELETE", f"/credentials/{each['id']}", 204)


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({}, 400, "invalid", "key"),
        ({"key": ""}, 400, "invalid", "key"),
        ({"key": None}, 400, "invalid", "key"),
        ({"key": ["canary"]}, 400, "invalid", "key"),
        ({"key": "canary canary"}, 400, "invalid", "key"),
        ({"key": "canary" * 200}, 400, "invalid", "key"),
        ({"key": KEY, "name": ""}, 400, "invalid", "name"),
        ({"key": KEY, "name": "a\nb"}, 400, "invalid", "name"),
        ({"key": KEY, "is_default": "yes"}, 400, "invalid", "is_default"),
        ({"key": KEY, "provider": "acme"}, 422, "not_supported", "provider"),
        ({"key": KEY, "provider": "scripted"}, 422, "not_supported", "provider"),
    ],
)
async def test_what_is_refused_names_the_member_and_never_the_key(
    api: Api, body: dict[str, Any], status: int, code: str, param: str
) -> None:
    answer = await api.client.post("/v3/credentials", json=body)
    assert error_of(answer, status, code)["param"] == param
    assert "canary" not in answer.text
    assert (await ask(api, "GET", "/credentials", 200))["data"] == []


async def test_credentials_of_others_are_not_there(api: Api, other: Api) -> None:
    made = await ask(api, "POST", "/credentials", 201, {"key": KEY, "is_default": True})
    path = f"/v3/credentials/{made['id']}"
    for answer in (
        await other.client.patch(path, json={"key": "theirs"}),
        await other.client.delete(path),
        await other.client.put("/v3/credentials/default", json={"credential": made["id"]}),
    ):
        error_of(answer, 404, "not_found")
    assert (await other.client.get("/v3/credentials")).json()["data"] == []
    assert (await ask(api, "GET", "/credentials", 200))["data"] == [made]
    await ask(api, "DELETE", f"/credentials/{made['id']}", 204)


async def test_no_key_is_in_any_answer_or_log(api: Api, capfd: pytest.CaptureFixture[str]) -> None:
    texts: list[str] = []
    made = await api.client.post("/v3/credentials", json={"key": KEY, "is_default": True})
    path = f"/v3/credentials/{made.json()['id']}"
    texts += [made.text, (await api.client.patch(path, json={"key": KEY + "2"})).text]
    texts += [(await api.client.get("/v3/credentials")).text, (await api.client.get("/v3/agents")).text]
    # Broken in the middle, and of the wrong kind: what complains must not quote.
    texts += [(await api.client.post("/v3/credentials", content=f'{{"key": "{KEY}')).text]
    texts += [(await api.client.post("/v3/credentials", json={"key": {"value": KEY}})).text]
    agent = {"name": "with a key", "model": "scripted/echo", "runtime": "scripted", "key": KEY}
    texts += [(await api.client.post("/v3/agents", json=agent)).text]
    await api.client.delete(path)
    said = capfd.readouterr()
    assert "sk-canary" not in "".join([*texts, said.out, said.err])
