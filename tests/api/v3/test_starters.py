"""Schedules, hooks and the URL of an agent over HTTP, with nobody who works on the sessions they start."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from opencomputer.server.http.access_log import AccessLog
from opencomputer.server.http.session_api.app import create_session_api
from opencomputer.server.services.access import Access
from opencomputer.server.services.facade import Presentation, Services
from opencomputer.server.services.sessions.client_tokens import ClientTokens
from opencomputer.server.services.sessions.facade import DurableServices
from opencomputer.server.stores.sql.api_keys import SqlApiKeyStore
from opencomputer.server.stores.sql.organisations import SqlOrganisationStore
from tests.api.v3.answers import error_of, ok
from tests.support.agents import CLAUDE, agent_world
from tests.support.session_world import partial
from tests.support.starter_world import StarterWorld

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}


@dataclass
class Starters:
    """`client` calls with a key of its organisation, `other` with one of another, `anybody` with none."""

    world: StarterWorld
    client: httpx.AsyncClient
    other: httpx.AsyncClient
    anybody: httpx.AsyncClient
    agents: int = 0

    async def agent(self) -> dict[str, Any]:
        self.world.agents.models.providers = frozenset({"anthropic"})
        self.agents += 1
        body = {"name": f"agent {self.agents}", "model": CLAUDE, "runtime": "claude"}
        return ok(await self.client.post("/v3/agents", json=body), 201)

    async def hook(self, agent: dict[str, Any], **fields: Any) -> dict[str, Any]:
        return ok(
            await self.client.post(f"/v3/agents/{agent['id']}/hooks", json={"name": "a", **fields}), 201
        )


@pytest.fixture(scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncGenerator[Starters]:
    folder = tmp_path_factory.mktemp("starters")
    async with agent_world(folder) as agents, _served(StarterWorld(agents, agents.database, folder)) as made:
        yield made


@asynccontextmanager
async def _served(world: StarterWorld) -> AsyncGenerator[Starters]:
    clock, database = world.clock, world.database
    access = Access(SqlOrganisationStore(database), SqlApiKeyStore(database), clock, b"t" * 32)
    durable = partial(
        DurableServices,
        client_tokens=ClientTokens(b"c" * 32, clock),
        agents=world.agents.agents,
        deployments=world.agents.deployments,
        sessions=world.sessions,
        schedules=world.schedules,
        scheduler=world.scheduler,
        hooks=world.hooks,
    )
    presentation = Presentation("http://oc", "localhost", "eu-1", 0)
    services = partial(Services, access=access, durable=durable, clock=clock, presentation=presentation)
    app = AccessLog(create_session_api(services), CollectorRegistry())
    keys = [(await access.create_organisation(name)).secret for name in ("first", "other")]
    async with _client(app, keys[0]) as first, _client(app, keys[1]) as other, _client(app, None) as anybody:
        yield Starters(world, first, other, anybody)


def _client(app: Any, key: str | None) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    headers = {} if key is None else {"X-API-Key": key}
    return httpx.AsyncClient(transport=transport, base_url="http://oc", headers=headers)


async def test_a_schedule_from_its_making_to_its_end(api: Starters) -> None:
    agent = await api.agent()
    path = f"/v3/agents/{agent['id']}/schedules"
    body = {"name": "nightly", "cron": "30 2 * * *", "tz": "America/New_York", "input": "Go."}
    [made] = ok(await api.client.post(path, json=body), 201).values()
    shown = {"agent_id", "consecutive_failures", "created_at", "id", "last_error", "last_fired_at"}
    assert set(made) == shown | {"next_fire_at", "overlap", "state", "updated_at"} | set(body)
    assert {**made, **body} == made
    assert (made["state"], made["overlap"], made["next_fire_at"][-5:]) == ("active", "skip", ".000Z")
    assert ok(await api.client.get(path)) == {"schedules": [made]}
    assert ok(await api.client.get(f"{path}/{made['id']}")) == {"schedule": made}
    error_of(await api.client.post(path, json=body), 409, "name_conflict", "name")
    change = {"tz": None, "paused": True, "overlap": "allow"}
    [changed] = ok(await api.client.patch(f"{path}/{made['id']}", json=change)).values()
    assert (changed["tz"], changed["state"], changed["overlap"]) == (None, "paused", "allow")
    runs = [ok(await api.client.post(f"{path}/{made['id']}/fire"), 201)["run"] for _ in range(3)]
    assert (runs[0]["outcome"], runs[0]["scheduled_for"], runs[0]["error"]) == ("enacted", None, None)
    session = ok(await api.client.get(f"/v3/sessions/{runs[0]['session_id']}"))
    assert (session["status"], session["agent_id"]) == ("queued", agent["id"])
    first = ok(await api.client.get(f"{path}/{made['id']}/runs?limit=2"))
    rest = ok(await api.client.get(f"{path}/{made['id']}/runs?cursor={first['next_cursor']}"))
    assert {each["id"] for each in first["runs"] + rest["runs"]} == {each["id"] for each in runs}
    assert rest["next_cursor"] is None
    assert (await api.client.delete(f"{path}/{made['id']}")).status_code == 204
    error_of(await api.client.get(f"{path}/{made['id']}"), 404, "not_found")
    assert len(ok(await api.client.get(f"{path}/{made['id']}/runs"))["runs"]) == 3


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({}, 400, "invalid", "name"),
        ({"name": "No"}, 400, "invalid", "name"),
        ({"cron": "* * * * * *"}, 422, "invalid_cron", "cron"),
        ({"tz": "Mars/Olympus"}, 422, "invalid_cron", "tz"),
        ({"input": ""}, 400, "invalid", "input"),
        ({"input": "a" * 32769}, 413, "payload_too_large", "input"),
        ({"overlap": "queue"}, 400, "invalid", "overlap"),
    ],
)
async def test_what_is_no_schedule_is_refused(
    api: Starters, body: dict[str, Any], status: int, code: str, param: str
) -> None:
    whole = {"name": "a", "cron": "* * * * *", "input": "Go.", **body} if body else {}
    path = f"/v3/agents/{(await api.agent())['id']}/schedules"
    error_of(await api.client.post(path, json=whole), status, code, param)
    assert ok(await api.client.get(path)) == {"schedules": []}


async def test_a_schedule_keeps_its_name(api: Starters) -> None:
    path = f"/v3/agents/{(await api.agent())['id']}/schedules"
    [made] = ok(
        await api.client.post(path, json={"name": "a", "cron": "0 0 1 1 *", "input": "Go."}), 201
    ).values()
    error_of(await api.client.patch(f"{path}/{made['id']}", json={"name": "b"}), 400, "invalid", "name")


async def test_nobody_sees_what_starts_the_agents_of_others(api: Starters) -> None:
    agent = await api.agent()
    below = f"/v3/agents/{agent['id']}"
    hook = (await api.hook(agent))["hook"]
    for path in ("/schedules", "/schedules/sch_1", "/schedules/sch_1/runs", "/hooks", f"/hooks/{hook['id']}"):
        error_of(await api.other.get(below + path), 404, "not_found")
        error_of(await api.anybody.get(below + path), 401, "unauthorized")
    error_of(await api.other.delete(f"{below}/hooks/{hook['id']}"), 404, "not_found")
    error_of(await api.other.post(agent["invoke_url"], json={}), 404, "not_found")


async def test_a_hook_from_its_making_to_its_end(api: Starters) -> None:
    agent = await api.agent()
    path = f"/v3/agents/{agent['id']}/hooks"
    made = await api.hook(agent, name="alerts", expires_at="2036-01-01T00:00:00+01:00")
    hook, url = made["hook"], made["hook_url"]
    token = url.removeprefix(f"{agent['invoke_url']}/hooks/")
    assert token.startswith("ochk_v1_")
    assert hook == {
        "id": hook["id"],
        "agent_id": agent["id"],
        "name": "alerts",
        "status": "active",
        "secret_last4": token[-4:],
        "revoked_reason": None,
        "expires_at": "2035-12-31T23:00:00.000Z",
        "created_at": hook["created_at"],
    }
    listed = ok(await api.client.get(path))
    assert listed == {"data": [hook], "next_cursor": None}
    assert ok(await api.client.get(f"{path}/{hook['id']}")) == hook
    receipt = ok(await api.anybody.post(url))
    assert receipt == {
        "request_id": receipt["request_id"],
        "session": {"id": receipt["session"]["id"], "status": "queued"},
        "replayed": False,
    }
    for _ in range(2):
        assert (await api.client.delete(f"{path}/{hook['id']}")).status_code == 204
    error_of(await api.anybody.post(url), 404, "not_found")
    assert ok(await api.client.get(path))["data"] == []
    [revoked] = ok(await api.client.get(f"{path}?include_revoked=true"))["data"]
    assert (revoked["status"], revoked["revoked_reason"]) == ("revoked", "manual")
    error_of(await api.client.get(f"{path}?include_revoked=x"), 400, "invalid", "include_revoked")
    for expires_at in ("2020-01-01T00:00:00Z", "soon"):
        body = {"name": "b", "expires_at": expires_at}
        error_of(await api.client.post(path, json=body), 400, "invalid", "expires_at")


async def test_what_a_hook_takes(api: Starters) -> None:
    url = (await api.hook(await api.agent()))["hook_url"]
    largest = b'"' + b"a" * (24576 - 2) + b'"'

    async def sent(content: bytes, **headers: str) -> httpx.Response:
        given = {**JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return await api.anybody.post(url, content=content, headers=given)

    for content in (b"null", b"[1, 2]", b'"text"', largest, b""):
        ok(await sent(content))
    ok(await sent(b"{}", Content_Type="application/vnd.github+json; charset=utf-8"))
    ok(await api.anybody.post(url, content=b"", headers={"Content-Type": "text/plain"}))
    error_of(await sent(largest + b" "), 413, "payload_too_large")
    error_of(await sent(b"{}", Content_Type="text/plain"), 415, "unsupported_media_type")
    error_of(await api.anybody.post(url, content=b"{}"), 415, "unsupported_media_type")
    error_of(await sent(b"{}", Content_Encoding="gzip"), 415, "unsupported_media_type")
    for wrong in (b"{", b"{} {}", b"NaN", b" "):
        error_of(await sent(wrong), 400, "invalid")
    error_of(await api.anybody.post(f"{url}?a=1", json={}), 400, "invalid")
    error_of(await sent(b"{}", Idempotency_Key="k" * 256), 400, "invalid")
    for method in ("GET", "PUT", "DELETE", "OPTIONS"):
        error_of(await api.anybody.request(method, url), 405, "method_not_allowed")
    first, other = ok(await sent(b"{}", webhook_id="m1")), ok(await sent(b"{}"))
    again = ok(await sent(b"{}", webhook_id="m1"))
    assert (again["session"]["id"], again["replayed"]) == (first["session"]["id"], True)
    assert other["session"]["id"] != first["session"]["id"]
    assert ok(await sent(b"{}", webhook_id="m2", Idempotency_Key="m1"))["replayed"]
    error_of(await sent(b"[]", webhook_id="m1"), 409, "idempotency_conflict")


async def test_who_knows_no_hook_hears_the_same_whatever_there_is(api: Starters) -> None:
    agent, other = await api.agent(), await api.agent()
    revoked = await api.hook(agent, name="revoked")
    good = await api.hook(agent, name="good")
    await api.client.delete(f"/v3/agents/{agent['id']}/hooks/{revoked['hook']['id']}")
    token = good["hook_url"].rpartition("/")[2]
    urls = [
        revoked["hook_url"],
        f"{agent['invoke_url']}/hooks/ochk_v1_other",
        f"{other['invoke_url']}/hooks/{token}",
        f"http://oc/a/agt-{'0' * 24}/hooks/{token}",
    ]
    answers = [error_of(await api.anybody.post(url, content=b"x"), 404, "not_found") for url in urls]
    assert len({each["message"] for each in answers}) == 1


async def test_too_many_at_once_are_told_when_to_come_again(api: Starters) -> None:
    made = await api.hook(await api.agent())
    for _ in range(60):
        await api.world.hooks.open(made["hook"]["agent_id"], made["hook_url"].rpartition("/")[2])
    refused = await api.anybody.post(made["hook_url"])
    error_of(refused, 429, "rate_limited")
    assert refused.headers["Retry-After"] == "60"


async def test_the_url_of_an_agent_starts_sessions_for_who_has_a_key(api: Starters) -> None:
    agent = await api.agent()
    url = agent["invoke_url"]
    error_of(await api.anybody.post(f"{url}/", json={}), 401, "unauthorized")
    error_of(await api.client.post(f"{url}/"), 415, "unsupported_media_type")
    error_of(await api.client.post(f"{url}/", content=b"", headers=JSON), 400, "invalid")
    error_of(await api.client.post(f"{url}/?x", json={}), 400, "invalid")
    key = {"Idempotency-Key": "k"}
    receipt = ok(await api.client.post(f"{url}/", json={"a": 1}, headers=key), 202)
    assert (receipt["session"]["status"], receipt["session"]["head"]) == ("queued", 1)
    assert receipt["links"]["events"] == f"http://oc/v3/sessions/{receipt['session']['id']}/events"
    assert receipt["client_token"].startswith("eyJ")
    again = ok(await api.client.post(url, json={"a": 1}, headers=key), 202)
    assert (again["session"]["id"], again["replayed"]) == (receipt["session"]["id"], True)


async def test_an_agents_url_is_explained_to_anybody_and_is_not_for_pages(api: Starters) -> None:
    origin = {"Origin": "https://app.example.com"}
    guide = await api.anybody.get("/a/agt-<b>/", headers=origin)
    assert (guide.status_code, guide.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "<b>" not in guide.text
    assert "Access-Control-Allow-Origin" not in guide.headers
    error_of(await api.anybody.get("/a/agt-1/elsewhere"), 404, "not_found")


async def test_tokens_of_hooks_are_not_logged(api: Starters, capsys: pytest.CaptureFixture[str]) -> None:
    url = (await api.hook(await api.agent()))["hook_url"]
    token = url.rpartition("/")[2]
    for address in (url, f"{url}/more", f"http://oc/a/agt-1/hooks//{token}", f"http://oc/v3/{token}"):
        await api.anybody.post(address)
    logged = capsys.readouterr()
    assert token.removeprefix("ochk_v1_") not in logged.out + logged.err
    assert "/hooks/…" in logged.out + logged.err or "\\u2026" in logged.out + logged.err


async def test_a_deployment_brings_its_schedules(api: Starters) -> None:
    agent = await api.agent()
    nightly = {"name": "nightly", "cron": "0 3 * * *", "input": "Go."}
    deployment = {"input": {"type": "inline", "prompt": "x", "schedules": [nightly]}}
    ok(await api.client.post(f"/v3/agents/{agent['id']}/deployments", json=deployment), 201)
    path = f"/v3/agents/{agent['id']}/schedules"
    [made] = ok(await api.client.get(path))["schedules"]
    assert {**made, **nightly} == made


async def test_the_document_names_what_there_is(api: Starters) -> None:
    paths = ok(await api.anybody.get("/v3/openapi.json"))["paths"]
    hook = paths["/a/agt-{agent}/hooks/{token}"]["post"]
    assert (hook["security"], hook["requestBody"]["required"]) == ([], False)
    assert paths["/a/agt-{agent}/"]["post"]["security"]
    assert paths["/v3/agents/{agent}/schedules/{schedule}"]["patch"]["security"]
    assert json.dumps(paths).count("ScheduleAnswer") == 3
