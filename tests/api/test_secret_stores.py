"""Secret stores over HTTP: shapes, refusals, and what sandboxes see of them."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from tests.api.state import checkpoint, hibernate, spawned
from tests.support.node import FIRST_KEY, Api, NodeFolder, api_of, kill_all

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

TOKEN = re.compile(r"osb_sealed_[0-9a-f]{32}")


@pytest.fixture
async def store(api: Api, request: pytest.FixtureRequest) -> dict[str, Any]:
    """An empty store with a name of its own."""
    answer = await api.post("/secret-stores", json={"name": request.node.name})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def put(api: Api, store: dict[str, Any], name: str, value: str, **fields: Any) -> dict[str, Any]:
    answer = await api.put(f"/secret-stores/{store['id']}/secrets/{name}", json={"value": value, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def variable(api: Api, sandbox: dict[str, Any] | str, name: str) -> str:
    sandbox_id = sandbox if isinstance(sandbox, str) else sandbox["sandboxID"]
    return (await api.run(sandbox_id, f'printf %s "${name}"'))["stdout"]


async def test_a_store_is_created_shown_changed_and_deleted(api: Api) -> None:
    body = {"name": "prod", "egressAllowlist": ["API.example.com", "*.a.org"]}
    answer = await api.post("/secret-stores", json=body)
    assert answer.status_code == 201
    made = answer.json()
    assert set(made) == {"id", "orgId", "name", "egressAllowlist", "createdAt", "updatedAt"}
    assert (made["name"], made["egressAllowlist"]) == ("prod", ["api.example.com", "*.a.org"])
    path = f"/secret-stores/{made['id']}"
    assert (await api.get(path)).json() == made
    assert made in (await api.get("/secret-stores")).json()
    taken = await api.post("/secret-stores", json={"name": "prod"})
    assert (taken.status_code, taken.json()["field"]) == (409, "name")
    hosts = made["egressAllowlist"]
    changes: list[tuple[dict[str, Any], str, list[str]]] = [
        ({"name": "", "egressAllowlist": None}, "prod", hosts),
        ({"name": "production"}, "production", hosts),
        ({"egressAllowlist": []}, "production", []),
    ]
    for change, name, allowlist in changes:
        changed = (await api.put(path, json=change)).json()
        assert (changed["name"], changed["egressAllowlist"]) == (name, allowlist)
    assert (await api.delete(path)).status_code == 204
    for answer in (await api.get(path), await api.put(path, json={"name": "x"}), await api.delete(path)):
        assert answer.status_code == 404


async def test_secrets_are_set_listed_and_deleted_without_their_values(
    api: Api, store: dict[str, Any]
) -> None:
    path = f"/secret-stores/{store['id']}/secrets"
    assert await put(api, store, "KEY", "canary-1", allowedHosts=["a.org"]) == {
        "name": "KEY",
        "status": "set",
        "refreshed": 0,
    }
    (shown,) = (await api.get(path)).json()
    assert set(shown) == {"id", "storeId", "name", "allowedHosts", "createdAt", "updatedAt"}
    assert (shown["name"], shown["storeId"], shown["allowedHosts"]) == ("KEY", store["id"], ["a.org"])
    await put(api, store, "KEY", "canary-2")
    listed = await api.get(path)
    assert (listed.json()[0]["id"], listed.json()[0]["allowedHosts"]) == (shown["id"], [])
    assert "canary" not in listed.text
    assert (await api.delete(f"{path}/KEY")).status_code == 204
    assert (await api.delete(f"{path}/KEY")).status_code == 404
    assert (await api.get(path)).json() == []


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/secret-stores", {}, "name"),
        ("POST", "/secret-stores", {"name": ""}, "name"),
        ("POST", "/secret-stores", {"name": "x", "egressAllowlist": [""]}, "egressAllowlist"),
        ("POST", "/secret-stores", {"name": "x", "egressAllowlist": ["a.org:443"]}, "egressAllowlist"),
        ("POST", "/secret-stores", {"name": "x", "egressAllowlist": "a.org"}, "egressAllowlist"),
        ("PUT", "{store}", {"egressAllowlist": ["https://a.org/"]}, "egressAllowlist"),
        ("PUT", "{store}/secrets/KEY", {}, "value"),
        ("PUT", "{store}/secrets/KEY", {"value": ""}, "value"),
        ("PUT", "{store}/secrets/KEY", {"value": ["canary"]}, "value"),
        ("PUT", "{store}/secrets/KEY", {"value": "canary\0"}, "value"),
        ("PUT", "{store}/secrets/KEY", {"value": "canary" * 11000}, "value"),
        ("PUT", "{store}/secrets/KEY", {"value": "canary", "allowedHosts": [""]}, "allowedHosts"),
        ("PUT", "{store}/secrets/KEY", {"value": "canary", "allowedHosts": [1]}, "allowedHosts.0"),
        ("PUT", "{store}/secrets/1KEY", {"value": "canary"}, "name"),
        ("PUT", "{store}/secrets/A-B", {"value": "canary"}, "name"),
    ],
)
async def test_what_is_refused_names_the_field_and_never_the_value(
    api: Api, store: dict[str, Any], method: str, path: str, body: dict[str, Any], field: str
) -> None:
    target = path.replace("{store}", f"/secret-stores/{store['id']}")
    answer = await api.request(method, target, json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert "canary" not in answer.text


async def test_stores_of_others_are_not_there(api: Api, other: Api, store: dict[str, Any]) -> None:
    await put(api, store, "KEY", "x")
    assert (await other.get("/secret-stores")).json() == []
    path = f"/secret-stores/{store['id']}"
    for answer in (
        await other.get(path),
        await other.put(path, json={"name": "mine"}),
        await other.get(f"{path}/secrets"),
        await other.put(f"{path}/secrets/KEY", json={"value": "y"}),
        await other.delete(f"{path}/secrets/KEY"),
        await other.delete(path),
        await other.get("/secret-stores/no-uuid-at-all"),
    ):
        assert answer.status_code == 404
    refused = await other.post("/sandboxes", json={"secretStore": store["name"]})
    assert (refused.status_code, refused.json()["field"]) == (400, "secretStore")


# In sandboxes


async def test_a_sandbox_has_a_token_and_never_the_value(api: Api, store: dict[str, Any]) -> None:
    await put(api, store, "KEY", "canary-value")
    one, two = [await api.create(secretStore=store["name"]) for _ in range(2)]
    tokens = [await variable(api, each, "KEY") for each in (one, two)]
    assert all(TOKEN.fullmatch(token) for token in tokens)
    assert tokens[0] != tokens[1]
    everything = await api.run(one["sandboxID"], "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")
    assert "canary-value" not in everything["stdout"]
    assert await variable(api, one, "HTTPS_PROXY") == "http://169.254.169.252:3128"
    assert (await put(api, store, "KEY", "another"))["refreshed"] == 2
    await hibernate(api, one["sandboxID"])
    assert (await put(api, store, "KEY", "yet another"))["refreshed"] == 1
    assert await variable(api, one, "KEY") == tokens[0]


async def test_variables_of_the_maker_win_and_are_warned_of(api: Api, store: dict[str, Any]) -> None:
    await put(api, store, "KEY", "x")
    made = await api.create(secretStore=store["name"], envs={"KEY": "plain"})
    assert made["warnings"] == ["secret 'KEY' is not used: envs has a variable of this name"]
    assert await variable(api, made, "KEY") == "plain"
    assert "warnings" not in (await api.get(f"/sandboxes/{made['sandboxID']}")).json()
    assert "warnings" not in await api.create(secretStore=store["name"])


async def test_forks_layer_their_store_over_those_they_inherit(api: Api, store: dict[str, Any]) -> None:
    await put(api, store, "BASE", "x")
    own = (
        await api.post("/secret-stores", json={"name": "own of a fork", "egressAllowlist": ["b.org"]})
    ).json()
    await put(api, own, "OWN", "y", allowedHosts=["b.org"])
    source = await api.create(secretStore=store["name"], egressAllowlist=["A.org"])
    made = await checkpoint(api, source["sandboxID"])
    fork = await spawned(api, made["id"], secretStore=own["name"])
    assert TOKEN.fullmatch(await variable(api, fork, "BASE"))
    assert TOKEN.fullmatch(await variable(api, fork, "OWN"))
    assert await variable(api, fork, "BASE") != await variable(api, source, "BASE")
    assert (await api.get(f"/sandboxes/{fork['sandboxID']}/allowed-hosts")).json() == {
        "sandboxID": fork["sandboxID"],
        "secretStore": own["name"],
        "baseSecretStore": store["name"],
        "secretStores": [store["name"], own["name"]],
        "egressAllowlist": ["b.org", "a.org"],
        "perSecretAllowedHosts": {"OWN": ["b.org"]},
        "networkEnabled": True,
    }
    await api.delete(f"/secret-stores/{store['id']}")
    (skipped,) = (await api.post(f"/sandboxes/{fork['sandboxID']}/fork")).json()
    assert len(skipped["warnings"]) == 1
    assert await variable(api, skipped, "BASE") == ""
    for path in (f"/sandboxes/from-checkpoint/{made['id']}", f"/sandboxes/{fork['sandboxID']}/fork"):
        refused = await api.post(path, json={"secretStore": "none"})
        assert (refused.status_code, refused.json()["field"]) == (400, "secretStore")


async def test_without_stores_and_lists_everything_is_allowed(api: Api, sandbox: str, other: Api) -> None:
    path = f"/sandboxes/{sandbox}/allowed-hosts"
    shown = (await api.get(path)).json()
    assert shown == {
        "sandboxID": sandbox,
        "secretStores": [],
        "egressAllowlist": [],
        "perSecretAllowedHosts": {},
        "networkEnabled": True,
    }
    assert (await other.get(path)).status_code == 404


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"secretStore": "none"}, "secretStore"),
        ({"secretStore": 1}, "secretStore"),
        ({"egressAllowlist": ["a.org/"]}, "egressAllowlist"),
        ({"egressAllowlist": [""]}, "egressAllowlist"),
    ],
)
async def test_creates_that_name_what_is_not_there_are_refused(
    api: Api, fields: dict[str, Any], field: str
) -> None:
    answer = await api.post("/sandboxes", json=fields)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


@pytest.mark.parametrize("word", ["true", "1", "YES", "on"])
async def test_a_store_may_be_killed_with_its_last_sandbox(
    api: Api, store: dict[str, Any], word: str
) -> None:
    one, two = [(await api.create(secretStore=store["name"]))["sandboxID"] for _ in range(2)]
    for sandbox, status in ((one, 200), (two, 404)):
        killed = await api.delete(f"/sandboxes/{sandbox}", params={"deleteSecretStore": word})
        assert killed.status_code == 204
        assert (await api.get(f"/secret-stores/{store['id']}")).status_code == status


# Where values must not be


async def test_no_value_is_in_files_logs_or_answers_of_a_node(
    tmp_path_factory: pytest.TempPathFactory, capfd: pytest.CaptureFixture[str]
) -> None:
    canary = "canary-8d1f6c2b"
    folder = NodeFolder(tmp_path_factory.mktemp("vault"))
    async with folder.running(LOG_LEVEL="debug") as url, api_of(url, FIRST_KEY) as api:
        store = (await api.post("/secret-stores", json={"name": "keys"})).json()
        await put(api, store, "KEY", canary)
        path = f"/secret-stores/{store['id']}/secrets/KEY"
        await api.put(path, json={"value": canary, "allowedHosts": [""]})
        await api.put(path, content=json.dumps({"value": [canary]}).encode())
        await api.put(path, content=f'{{"value": "{canary}"'.encode())
        sandbox = (await api.create(secretStore="keys"))["sandboxID"]
        await checkpoint(api, sandbox)
        await hibernate(api, sandbox)
        await put(api, store, "KEY", canary)
        assert TOKEN.fullmatch(await variable(api, sandbox, "KEY"))
        files = await asyncio.to_thread(
            lambda: [each for each in folder.path.rglob("*") if each.is_file() and not each.is_symlink()]
        )
        assert any(each.name == "opencomputer.db" for each in files)
        assert any(each.name == "keyring.json" for each in files)
        assert [each for each in files if canary.encode() in each.read_bytes()] == []
        await kill_all(api)
    said = capfd.readouterr()
    assert canary not in said.out + said.err
