"""Deployments, revisions, activations and skills over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.v3.test_agents import agent, ask
from tests.api.v3.test_foundation import error_of
from tests.support.archives import GOOD, zipped
from tests.support.node import Api

pytestmark = pytest.mark.anyio

__all__ = ["agent"]

NIGHTLY = {"name": "nightly", "cron": "0 3 * * *", "input": "Tidy up."}

DEPLOYMENT = {
    "id",
    "state",
    "phase",
    "terminal",
    "result",
    "input_type",
    "active",
    "revision_id",
    "revision",
    "ref",
    "sha",
    "source",
    "source_relation",
    "actor",
    "error",
    "error_class",
    "build",
    "configuration",
    "log_bytes",
    "log_truncated",
    "live_touched",
    "agent_live",
    "timing",
    "allowed_actions",
    "restore_eligibility",
    "redeploy_of",
    "created_at",
    "updated_at",
    "started_at",
    "finished_at",
}
REVISION = {
    "id",
    "number",
    "digest",
    "prompt",
    "model",
    "skill_bundle_digest",
    "runtime_ref",
    "active",
    "created_at",
    "sha",
    "ref",
}


def inline(prompt: str, **members: Any) -> dict[str, Any]:
    activate = members.pop("activate", True)
    return {"input": {"type": "inline", "prompt": prompt, **members}, "activate": activate}


async def test_a_deployment_makes_a_revision_that_can_be_staged_activated_and_left(
    api: Api, agent: dict[str, Any]
) -> None:
    path = f"/agents/{agent['id']}"
    first = (await ask(api, "POST", f"{path}/deployments", 201, inline("two")))["deployment"]
    assert set(first) == DEPLOYMENT
    assert (first["state"], first["phase"], first["result"]) == ("ready", "ready", "created")
    assert (first["terminal"], first["active"], first["revision"]["number"]) == (True, True, 2)
    assert await ask(api, "GET", f"{path}/deployments/{first['id']}", 200) == first
    staged = (await ask(api, "POST", f"{path}/deployments", 201, inline("three", activate=False)))[
        "deployment"
    ]
    assert (staged["active"], staged["revision"]["number"]) == (False, 3)
    shown = await ask(api, "GET", path, 200)
    assert (shown["prompt"], shown["revision"], shown["version"]) == ("two", 2, 3)
    assert shown["deployment_status"]["deployment_id"] == staged["id"]
    for named, number in ((3, 3), (1, 1), (staged["revision_id"], 3), (3, 3)):
        activated = await ask(api, "POST", f"{path}/revisions/{named}/activate", 200)
        assert (await ask(api, "GET", path, 200))["active_revision"]["number"] == number
        assert set(activated) == {"active_revision_id"}
    again = (await ask(api, "POST", f"{path}/deployments", 201, inline("two")))["deployment"]
    assert (again["result"], again["revision"], again["active"]) == ("deduped", first["revision"], True)
    revisions = (await ask(api, "GET", f"{path}/revisions", 200))["data"]
    assert [(each["number"], each["active"]) for each in revisions] == [(3, False), (2, True), (1, False)]
    assert all(set(each) == REVISION for each in revisions)
    moves = (await ask(api, "GET", f"{path}/activations", 200))["data"]
    assert all(set(each) == {"id", "from", "to", "actor", "reason", "created_at"} for each in moves)
    reasons = [each["reason"] for each in moves]
    assert reasons == ["deploy", "activate", "activate", "activate", "deploy", "create"]
    assert moves[-1]["from"] is None
    assert [each["to"] for each in moves[1:]] == [each["from"] for each in moves[:-1]]


async def test_histories_come_in_pages(api: Api, agent: dict[str, Any]) -> None:
    path = f"/agents/{agent['id']}"
    for number in range(4):
        await ask(api, "POST", f"{path}/deployments", 201, inline(f"prompt {number}"))
    lists = (
        ("deployments", "before"),
        ("deploys", "before"),
        ("revisions", "cursor"),
        ("activations", "cursor"),
    )
    for name, parameter in lists:
        whole = (await ask(api, "GET", f"{path}/{name}", 200))["data"]
        assert len(whole) == 5
        first = await ask(api, "GET", f"{path}/{name}?limit=3", 200)
        rest = await ask(api, "GET", f"{path}/{name}?limit=3&{parameter}={first['next_cursor']}", 200)
        assert (first["data"] + rest["data"], rest["next_cursor"]) == (whole, None)
    page = await ask(api, "GET", f"{path}/deployments?limit=1", 200)
    foreign = await api.client.get(f"/v3{path}/revisions?cursor={page['next_cursor']}")
    error_of(foreign, 400, "invalid")


async def test_the_same_deployment_is_made_once_under_its_key(api: Api, agent: dict[str, Any]) -> None:
    path = f"/v3/agents/{agent['id']}/deployments"
    header = {"Idempotency-Key": "of the header"}
    made = await api.client.post(path, json=inline("two"), headers=header)
    again = await api.client.post(path, json={**inline("two"), "client_context": {"a": 1}}, headers=header)
    assert (made.status_code, again.status_code) == (201, 200)
    assert again.json() == made.json()
    error_of(await api.client.post(path, json=inline("three"), headers=header), 409, "idempotency_conflict")
    body = {**inline("three"), "idempotency_key": "of the body"}
    third = await api.client.post(path, json=body, headers=header)
    assert third.status_code == 201
    assert (await api.client.post(path, json=body)).status_code == 200
    bad = await api.client.post(path, json={**inline("x"), "idempotency_key": "ключ"})
    assert error_of(bad, 400, "invalid")["param"] == "idempotency_key"


async def test_logs_are_read_from_where_one_was(api: Api, agent: dict[str, Any]) -> None:
    path = f"/agents/{agent['id']}"
    made = (await ask(api, "POST", f"{path}/deployments", 201, inline("a secret prompt")))["deployment"]
    logs = f"{path}/deployments/{made['id']}/logs"
    whole = await ask(api, "GET", logs, 200)
    assert set(whole) == {"data", "next_cursor", "has_more"}
    assert [each["seq"] for each in whole["data"]] == ["1", "2"]
    members = {"seq", "cursor", "recorded_at", "phase", "stream", "chunk"}
    assert all(set(each) == members for each in whole["data"])
    assert sum(len(each["chunk"]) for each in whole["data"]) == made["log_bytes"]
    assert "secret" not in str(whole)
    first = await ask(api, "GET", f"{logs}?limit=1", 200)
    assert (first["next_cursor"], first["has_more"]) == ("1", True)
    rest = await ask(api, "GET", f"{logs}?after=1", 200)
    assert (first["data"] + rest["data"], rest["has_more"]) == (whole["data"], False)
    assert (await ask(api, "GET", f"{logs}?after=9999999999", 200))["data"] == []
    for after in ("x", "-1", "9" * 40):
        error_of(await api.client.get(f"/v3{logs}?after={after}"), 400, "invalid")


@pytest.mark.parametrize("wrapped", [False, True])
async def test_the_shorthand_deploys_too(api: Api, agent: dict[str, Any], wrapped: bool) -> None:
    path = f"/agents/{agent['id']}"
    body = {"type": "inline", "prompt": "two"}
    made = await ask(api, "POST", f"{path}/revisions", 200, {"input": body} if wrapped else body)
    assert set(made) == {"deploy_id", "state", "result", "revision"}
    assert (made["result"], made["revision"]["number"], made["revision"]["active"]) == ("created", 2, True)
    (latest, _) = (await ask(api, "GET", f"{path}/deploys", 200))["data"]
    assert latest["id"] == made["deploy_id"]
    assert set(latest) == {"id", "state", "result", "source", "actor", "revision_id", "created_at"}


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({}, 400, "invalid", "input"),
        ({"input": "x"}, 400, "invalid", "input"),
        ({"input": {"type": "inline"}}, 400, "invalid", "input.prompt"),
        ({"input": {"type": "inline", "prompt": 5}}, 400, "invalid", "input.prompt"),
        ({"input": {"type": "inline", "prompt": "x"}, "activate": "no"}, 400, "invalid", "activate"),
        ({"input": {"type": "other", "prompt": "x"}}, 400, "invalid", "input.type"),
        ({"input": {"type": "github"}}, 409, "not_linked", "input.type"),
        ({"input": {"type": "source"}}, 422, "not_supported", "input.type"),
        (inline("x", runtime={"type": "custom"}), 422, "not_supported", "input.runtime"),
        (inline("x", mcp_servers={"a": {}}), 422, "not_supported", "input"),
        (inline("x", schedules=[{"name": "a"}]), 400, "invalid", "input.schedules.0.cron"),
        (inline("x", schedules=[NIGHTLY | {"cron": "x"}]), 422, "invalid_cron", "input.schedules.0.cron"),
        (inline("x", schedules=[NIGHTLY, NIGHTLY]), 400, "invalid", "input.schedules"),
        (inline("x", model="openai/gpt"), 422, "model_runtime_mismatch", "model"),
        (inline("x", skills=[{"path": "a/SKILL.md", "content": "x"}]), 422, "not_supported", "skills"),
        (inline("x", skills=[{"path": "../SKILL.md", "content": "x"}]), 422, "invalid_skills", "skills"),
        (inline("x", skills=[{"path": "a/b", "content": "x", "mode": "9"}]), 422, "invalid_skills", "skills"),
        (inline("x", skills=[{"path": "a/b"}]), 400, "invalid", "input.skills.0.content"),
    ],
)
async def test_deployments_that_are_refused_leave_nothing(
    api: Api, agent: dict[str, Any], body: dict[str, Any], status: int, code: str, param: str
) -> None:
    answer = await api.client.post(f"/v3/agents/{agent['id']}/deployments", json=body)
    assert error_of(answer, status, code)["param"] == param
    assert await ask(api, "GET", f"/agents/{agent['id']}", 200) == agent


async def test_what_is_not_there_is_not_found(api: Api, agent: dict[str, Any]) -> None:
    path = f"/v3/agents/{agent['id']}"
    for answer in (
        await api.client.get(f"{path}/deployments/dep_none"),
        await api.client.get(f"{path}/deployments/dep_none/logs"),
        await api.client.get(f"{path}/revisions/2"),
        await api.client.get(f"{path}/revisions/rev_none"),
        await api.client.get(f"{path}/revisions/99999999999999999999"),
        await api.client.post(f"{path}/revisions/0/activate"),
        await api.client.get("/v3/agents/agt_none/skills"),
    ):
        error_of(answer, 404, "not_found")


async def test_runtimes_without_skills_say_so(api: Api, agent: dict[str, Any]) -> None:
    path = f"/v3/agents/{agent['id']}/skills"
    headers = {"Content-Type": "application/zip"}
    error_of(await api.client.put(path, content=zipped(GOOD), headers=headers), 422, "not_supported")
    error_of(await api.client.delete(path), 422, "not_supported")
    assert (await api.client.get(path)).json() == {
        "revision": agent["active_revision"],
        "skill_bundle_digest": None,
        "skills": [],
    }
