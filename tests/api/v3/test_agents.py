"""Agents over HTTP: shapes, refusals, and that nobody sees those of others."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import closing
from typing import Any

import httpx
import pytest

from opencomputer import OpenComputer
from opencomputer.cli.main import run as run_oc
from opencomputer.durable import ScheduleRun
from tests.api.v3.test_foundation import error_of
from tests.support.node import Api, NodeFolder
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

MODEL = "scripted/echo"
MEMBERS = {
    "id",
    "name",
    "runtime",
    "model",
    "invoke_url",
    "prompt",
    "prompt_hash",
    "credential_id",
    "limits",
    "revision",
    "active_revision_id",
    "active_revision",
    "deployment_status",
    "version",
    "default_repo",
    "checkpoints",
    "created_at",
    "updated_at",
}


async def ask(api: Api, method: str, path: str, status: int, body: Any = None) -> Any:
    answer = await api.client.request(method, f"/v3{path}", json=body)
    assert answer.status_code == status, answer.text
    return None if status == 204 else answer.json()


@pytest.fixture
async def agent(api: Api, request: pytest.FixtureRequest) -> AsyncGenerator[dict[str, Any]]:
    """An agent with a name of its own."""
    name = f"{request.node.name} agent"[-100:]
    body = {"name": name, "model": MODEL, "runtime": "scripted", "prompt": "one"}
    made = await ask(api, "POST", "/agents", 201, body)
    yield made
    await api.client.delete(f"/v3/agents/{made['id']}")


async def test_an_agent_is_created_once_and_shown_whole(api: Api) -> None:
    body = {
        "name": " builder ",
        "model": MODEL,
        "runtime": "scripted",
        "prompt": "Build.",
        "limits": {"tokens": 5, "turns": None},
        "default_repo": "acme/site",
        "checkpoints": {"keep": 2},
        "unknown": 1,
    }
    made = await ask(api, "POST", "/agents", 201, body)
    assert set(made) == MEMBERS
    assert made["id"].startswith("agt_")
    assert made["invoke_url"] == f"{api.url}/a/agt-{made['id'][4:]}"
    assert (made["name"], made["runtime"], made["model"]) == ("builder", "scripted", MODEL)
    assert (made["prompt"], made["credential_id"], made["version"]) == ("Build.", None, 1)
    assert (made["limits"], made["checkpoints"]) == ({"tokens": 5}, {"keep": 2})
    active = made["active_revision"]
    assert (made["revision"], made["active_revision_id"]) == (1, active["id"])
    assert set(active) == {"id", "number", "digest"}
    assert made["deployment_status"]["state"] == "ready"
    assert await ask(api, "POST", "/agents", 200, body) == made
    assert await ask(api, "GET", f"/agents/{made['id']}", 200) == made
    assert await ask(api, "GET", "/agents/builder", 200) == made
    different = await api.client.post("/v3/agents", json={**body, "prompt": "Other."})
    error = error_of(different, 409, "name_conflict")
    assert error["existing_agent"] == {"id": made["id"], "name": "builder"}
    await ask(api, "DELETE", f"/agents/{made['id']}", 204)
    await ask(api, "GET", f"/agents/{made['id']}", 404)
    assert (await ask(api, "POST", "/agents", 201, body))["id"] != made["id"]
    await ask(api, "DELETE", "/agents/builder", 204)


async def test_agents_come_in_pages_newest_first(api: Api) -> None:
    names = [f"paged {number}" for number in range(5)]
    for name in names:
        await ask(api, "POST", "/agents", 201, {"name": name, "model": MODEL, "runtime": "scripted"})
    seen: list[str] = []
    cursor = ""
    while True:
        found = await ask(api, "GET", f"/agents?limit=2{cursor}", 200)
        assert set(found) == {"data", "next_cursor"}
        assert all(set(each) == MEMBERS for each in found["data"])
        seen += [each["name"] for each in found["data"]]
        if found["next_cursor"] is None:
            break
        cursor = f"&cursor={found['next_cursor']}"
    assert [name for name in seen if name in names] == names[::-1]
    for query in ("limit=0", "limit=x", "cursor=x"):
        answer = await api.client.get(f"/v3/agents?{query}")
        assert error_of(answer, 400, "invalid")["param"] == query.partition("=")[0]


async def test_changes_are_versions_and_new_behaviour_is_a_revision(api: Api, agent: dict[str, Any]) -> None:
    path = f"/agents/{agent['id']}"
    changed = await ask(api, "PATCH", path, 200, {"prompt": "two", "limits": {"turns": 3}})
    assert (changed["prompt"], changed["revision"], changed["version"]) == ("two", 2, 2)
    assert changed["limits"] == {"turns": 3}
    assert changed["prompt_hash"] != agent["prompt_hash"]
    bound = await ask(api, "PATCH", path, 200, {"limits": None, "credential": "managed"})
    assert (bound["limits"], bound["credential_id"], bound["version"]) == (None, "managed", 3)
    assert (await ask(api, "PATCH", path, 200, {"credential": None}))["credential_id"] is None
    kept = await ask(api, "PATCH", path, 200, {"checkpoints": {"keep": 7}, "default_repo": "a/b"})
    assert (kept["checkpoints"], kept["default_repo"]) == ({"keep": 7}, "a/b")
    off = await ask(api, "PATCH", path, 200, {"checkpoints": None, "default_repo": None})
    assert (off["checkpoints"], off["default_repo"]) == ({"keep": 0}, None)
    assert await ask(api, "PATCH", path, 200, {}) == off
    versions = await ask(api, "GET", f"{path}/versions?limit=4", 200)
    assert [each["version"] for each in versions["data"]] == [6, 5, 4, 3]
    rest = await ask(api, "GET", f"{path}/versions?cursor={versions['next_cursor']}", 200)
    assert [each["version"] for each in rest["data"]] == [2, 1]
    assert (rest["data"][0]["reason"], rest["data"][0]["agent"]["revision"]) == ("patch", 2)
    assert rest["next_cursor"] is None


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({"model": MODEL}, 400, "invalid", "name"),
        ({"name": "x"}, 400, "invalid", "model"),
        ({"name": 1, "model": MODEL}, 400, "invalid", "name"),
        ({"name": "", "model": MODEL}, 400, "invalid", "name"),
        ({"name": "x", "model": "echo"}, 400, "invalid", "model"),
        ({"name": "x", "model": MODEL, "prompt": 5}, 400, "invalid", "prompt"),
        ({"name": "x", "model": MODEL, "prompt": "a\0"}, 400, "invalid", "prompt"),
        ({"name": "x", "model": MODEL, "limits": {"tokens": 0}}, 400, "invalid", "limits.tokens"),
        ({"name": "x", "model": MODEL, "limits": {"tokens": "5"}}, 400, "invalid", "limits.tokens"),
        ({"name": "x", "model": MODEL, "limits": {"turns": 1.5}}, 400, "invalid", "limits.turns"),
        ({"name": "x", "model": MODEL, "checkpoints": {"keep": 51}}, 400, "invalid", "checkpoints.keep"),
        ({"name": "x", "model": MODEL, "checkpoints": {}}, 400, "invalid", "checkpoints.keep"),
        ({"name": "x", "model": MODEL, "key": "k", "credential": "managed"}, 400, "invalid", "credential"),
        ({"name": "x", "model": MODEL, "key": "canary key"}, 400, "invalid", "key"),
        ({"name": "x", "model": MODEL, "key": 5}, 400, "invalid", "key"),
        ({"name": "x", "model": MODEL, "credential": "cred_x"}, 422, "no_credential", "credential"),
        ({"name": "x", "model": "openai/gpt"}, 422, "model_runtime_mismatch", "model"),
        ({"name": "x", "model": MODEL, "runtime": "pi"}, 422, "unsupported_runtime", "runtime"),
        ({"name": "x", "model": MODEL, "runtime": "flue"}, 422, "unsupported_runtime", "runtime"),
        ({"name": "x", "model": MODEL, "runtime": "none"}, 422, "unsupported_runtime", "runtime"),
        ({"name": "x", "model": MODEL, "prompt": "x" * 262145}, 413, "payload_too_large", "prompt"),
    ],
)
async def test_what_is_refused_names_the_member(
    api: Api, body: dict[str, Any], status: int, code: str, param: str
) -> None:
    answer = await api.client.post("/v3/agents", json={"runtime": "scripted", **body})
    assert error_of(answer, status, code)["param"] == param
    assert "canary" not in answer.text
    await ask(api, "GET", "/agents/x", 404)


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({"name": "other"}, 400, "invalid", "name"),
        ({"runtime": "scripted"}, 400, "invalid", "runtime"),
        ({"prompt": None}, 400, "invalid", "prompt"),
        ({"model": None}, 400, "invalid", "model"),
        ({"key": None}, 400, "invalid", "key"),
        ({"key": "k", "credential": None}, 400, "invalid", "credential"),
        ({"model": "openai/gpt"}, 422, "model_runtime_mismatch", "model"),
        ({"credential": "cred_none"}, 422, "no_credential", "credential"),
        ({"limits": {"turns": -1}}, 400, "invalid", "limits.turns"),
        ({"key": "sk-0123456789abcdef"}, 422, "not_supported", "provider"),
    ],
)
async def test_changes_that_are_refused_name_the_member(
    api: Api, agent: dict[str, Any], body: dict[str, Any], status: int, code: str, param: str
) -> None:
    answer = await api.client.patch(f"/v3/agents/{agent['id']}", json=body)
    assert error_of(answer, status, code)["param"] == param
    assert await ask(api, "GET", f"/agents/{agent['id']}", 200) == agent


async def test_agents_of_others_are_not_there(api: Api, other: Api, agent: dict[str, Any]) -> None:
    path = f"/v3/agents/{agent['id']}"
    inline = {"input": {"type": "inline", "prompt": "mine"}}
    answers: list[httpx.Response] = [
        await other.client.get(path),
        await other.client.get(f"/v3/agents/{agent['name']}"),
        await other.client.patch(path, json={"prompt": "mine"}),
        await other.client.delete(path),
        await other.client.get(f"{path}/versions"),
        await other.client.post(f"{path}/deployments", json=inline),
        await other.client.get(f"{path}/deployments"),
        await other.client.get(f"{path}/deployments/{agent['deployment_status']['deployment_id']}"),
        await other.client.get(f"{path}/deployments/{agent['deployment_status']['deployment_id']}/logs"),
        await other.client.get(f"{path}/deploys"),
        await other.client.post(f"{path}/revisions", json={"prompt": "mine"}),
        await other.client.get(f"{path}/revisions"),
        await other.client.get(f"{path}/revisions/1"),
        await other.client.post(f"{path}/revisions/1/activate"),
        await other.client.get(f"{path}/activations"),
        await other.client.get(f"{path}/skills"),
        await other.client.put(f"{path}/skills", content=b"", headers={"Content-Type": "application/zip"}),
        await other.client.delete(f"{path}/skills"),
    ]
    for answer in answers:
        error_of(answer, 404, "not_found")
    assert (await other.client.get("/v3/agents")).json()["data"] == []
    assert await ask(api, "GET", f"/agents/{agent['id']}", 200) == agent


async def test_the_clients_start_sessions_by_themselves(
    api: Api, agent: dict[str, Any], folder: NodeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a whole node: what is due fires, a hook takes what is sent, and one that has leaked nothing more."""
    for name, value in (("API_URL", api.url), ("API_KEY", api.key)):
        monkeypatch.setenv(f"OPENCOMPUTER_{name}", value)
    async with OpenComputer() as oc:
        starters, named = oc.agents, agent["id"]
        schedule = await starters.schedules.create(named, "nightly", "0 3 * * *", "Go.", tz="Asia/Tokyo")
        make_due(folder, schedule.id)
        # Whatever is changed, the scheduler looks.
        await starters.schedules.update(named, schedule.id, input="Go on.")
        [run] = await eventually(lambda: _runs(oc, named, schedule.id), "the firing of a schedule")
        assert (run.outcome, run.scheduled_for) == ("enacted", "2026-01-01T18:00:00.000Z")
        await (await oc.sessions.get(str(run.session_id))).archive()
        hook, url = await starters.hooks.create(named, "alerts")
        receipt = (await api.client.post(url, json={"disk": "full"}, headers={"X-API-Key": ""})).json()
        await (await oc.sessions.get(receipt["session"]["id"])).archive()
        commands = (
            ("agent", "schedule", "pause", "nightly", "--agent", named),
            ("orgs", "revoke-hook", url, "--data", str(folder.data)),
        )
        for command in commands:
            assert await asyncio.to_thread(run_oc, command) == 0
        assert (await starters.schedules.get(named, schedule.id)).state == "paused"
        error_of(await api.client.post(url, json={}), 404, "not_found")
        leaked = await starters.hooks.get(named, hook.id)
        assert (leaked.status, leaked.revoked_reason) == ("revoked", "secret_exposure")


async def _runs(oc: OpenComputer, agent: str, schedule: str) -> list[ScheduleRun]:
    return list(await oc.agents.schedules.runs(agent, schedule))


def make_due(folder: NodeFolder, schedule: str) -> None:
    """As if the server had been away when it was."""
    with closing(sqlite3.connect(folder.data / "opencomputer.db", timeout=20)) as database, database:
        moment = "2026-01-01 18:00:00.000000"
        database.execute("update schedules set next_fire_at = ? where id = ?", (moment, schedule))
