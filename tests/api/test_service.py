"""What surrounds the routes: health, unknown ones, wrong methods, headers, the rest of the contract."""

from __future__ import annotations

import httpx
import pytest

from tests.api.routes import (
    DATA_PLANE,
    LOGINS,
    NOT_OFFERED,
    OFFERED,
    OWN_SANDBOX,
    SIGNED,
    body_of,
    filled,
    known_routes,
)
from tests.support.node import Api

pytestmark = pytest.mark.anyio

MISSING = "sb-00000000"


def is_error(answer: httpx.Response, status: int, code: str) -> bool:
    body = answer.json()
    return (
        answer.status_code == status
        and answer.headers["content-type"] == "application/json"
        and body["code"] == code
        and isinstance(body["error"], str)
        and bool(body["error"])
    )


@pytest.mark.parametrize("path", ["/health", "/healthz"])
async def test_it_is_alive_without_a_credential(api: Api, path: str) -> None:
    answer = await httpx.AsyncClient(base_url=api.url).get(path)
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_it_says_when_it_is_ready(api: Api) -> None:
    assert (await api.client.get("/readyz")).json() == {"status": "ready"}


async def test_metrics_can_be_scraped(api: Api, sandbox: str) -> None:
    await api.get(f"/sandboxes/{sandbox}")
    await api.get(f"/sandboxes/{MISSING}")
    text = (await api.client.get("/metrics")).text
    assert "opencomputer_sandboxes_running 1.0" in text
    assert 'opencomputer_pool_ready{template="base"}' in text
    assert '/sandboxes/{sandbox_id}",status="404"' in text
    assert sandbox not in text, "a figure per sandbox would grow without end"


async def test_who_am_i(api: Api) -> None:
    answer = (await api.get("/whoami")).json()
    assert set(answer) == {"org_id", "org_name", "user_id", "email"}
    assert answer["org_name"] == "default"


async def test_the_table_of_these_tests_is_complete(api: Api) -> None:
    """A route that no table knows is a route that the tests of credentials and tenancy pass over."""
    offered = {(method, path.split("?")[0]) for method, path in [*OFFERED, *SIGNED]}
    known = await known_routes(api)
    beside = {("GET", "/health"), ("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics"), *LOGINS}
    listed = {
        (method, path.replace("{name}", "base").replace("{port}", "3000")) for method, path in known - beside
    }
    assert listed - offered == set()


@pytest.mark.parametrize(("method", "path"), NOT_OFFERED)
async def test_the_rest_of_the_contract_is_not_supported_and_says_so(
    api: Api, sandbox: str, method: str, path: str
) -> None:
    answer = await api.request(method, filled(path, sandbox))
    assert is_error(answer, 501, "not_supported"), answer.text


@pytest.mark.parametrize(
    "path", ["/v1/browsers", "/v1/profiles/p/auth-checks", "/v1/agents", "/v1/agents/a/logs"]
)
async def test_optional_parts_below_the_root_are_not_supported_either(api: Api, path: str) -> None:
    assert is_error(await api.client.post(path), 501, "not_supported")
    assert is_error(await api.client.post(path, headers={"X-API-Key": "wrong"}), 401, "unauthorized")


@pytest.mark.parametrize(("method", "path"), NOT_OFFERED)
async def test_what_is_not_supported_is_still_not_told_to_strangers(api: Api, method: str, path: str) -> None:
    answer = await api.request(method, filled(path, MISSING), headers={"X-API-Key": "wrong"})
    assert is_error(answer, 401, "unauthorized"), answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api",
        "/api/",
        "/api/nothing",
        "/api/sandboxes/x/nothing",
        "/api/v3/agents",
        "/sandboxes",
        "/sandboxes/x",
        "/docs",
        "/redoc",
        "/api/sandboxes/x/exec/y",
        "/%2e%2e/etc/passwd",
        "/api//sandboxes",
        "/api/sandboxes//exec",
    ],
)
async def test_an_unknown_route_is_not_found_in_the_contracts_shape(api: Api, path: str) -> None:
    answer = await api.client.get(path)
    assert is_error(answer, 404, "not_found"), answer.text


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/sandboxes", {"GET", "POST"}),
        ("PATCH", f"/sandboxes/{MISSING}", {"GET", "DELETE"}),
        ("DELETE", f"/sandboxes/{MISSING}/exec/run", {"POST"}),
        ("POST", f"/sandboxes/{MISSING}/files?path=x", {"GET", "PUT", "DELETE"}),
    ],
)
async def test_a_wrong_method_is_told_in_the_contracts_shape(
    api: Api, method: str, path: str, allowed: set[str]
) -> None:
    answer = await api.request(method, path)
    assert is_error(answer, 405, "method_not_allowed"), answer.text
    assert set(answer.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize(("method", "path"), OFFERED)
async def test_nothing_ever_redirects(api: Api, method: str, path: str) -> None:
    """The published Python client does not follow one."""
    route, _, query = filled(path, MISSING).partition("?")
    answer = await api.request(method, f"{route}/?{query}")
    assert answer.status_code in (404, 405), answer.text
    assert "location" not in answer.headers


@pytest.mark.parametrize(("method", "path"), DATA_PLANE)
async def test_the_data_plane_is_there_without_the_prefix_too(api: Api, method: str, path: str) -> None:
    answers = [
        await api.client.request(method, f"{prefix}{filled(path, MISSING)}", **body_of(path))
        for prefix in ("/api", "")
    ]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].json() == answers[1].json()
    assert answers[0].json()["error"] == "there is no such sandbox"


@pytest.mark.parametrize(("method", "path"), OWN_SANDBOX)
async def test_control_routes_are_below_the_prefix_only(
    api: Api, sandbox: str, method: str, path: str
) -> None:
    answer = await api.client.request(method, filled(path, sandbox))
    assert is_error(answer, 404, "not_found")
    assert answer.json()["error"] == "there is no such route"


async def test_both_prefixes_reach_the_same_sandbox(api: Api, sandbox: str) -> None:
    for prefix in ("/api", ""):
        answer = await api.client.post(
            f"{prefix}/sandboxes/{sandbox}/exec/run", json={"cmd": "echo", "args": ["hi"]}
        )
        assert answer.json() == {"exitCode": 0, "stdout": "hi\n", "stderr": ""}


async def test_every_answer_has_an_id_of_its_own(api: Api) -> None:
    ids = {(await api.client.get(path)).headers["x-request-id"] for path in ("/health", "/x", "/api/whoami")}
    assert len(ids) == 3


async def test_pages_of_other_sites_may_call_the_api(api: Api) -> None:
    asked = {
        "Origin": "https://app.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-api-key,x-oc-sdk-version,idempotency-key,x-osb-async-wake",
    }
    answer = await httpx.AsyncClient(base_url=api.url).options("/api/sandboxes", headers=asked)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "x-api-key" in answer.headers["access-control-allow-headers"].lower()
    plain = await api.client.get("/api/whoami", headers={"Origin": "https://app.example"})
    assert plain.headers["access-control-allow-origin"] == "*"
    assert "x-request-id" in plain.headers["access-control-expose-headers"].lower()


async def test_a_refusal_may_be_read_by_pages_too(api: Api) -> None:
    answer = await api.client.get(
        "/api/whoami", headers={"Origin": "https://app.example", "X-API-Key": "wrong"}
    )
    assert answer.status_code == 401
    assert answer.headers["access-control-allow-origin"] == "*"


async def test_templates_can_be_listed_and_are_made_elsewhere(api: Api) -> None:
    listed = (await api.get("/templates")).json()
    assert [(each["templateID"], each["name"]) for each in listed] == [("base", "base")]
    assert (await api.get("/templates/base")).json()["name"] == "base"
    assert is_error(await api.get("/templates/nope"), 404, "not_found")
    for method, path in (("POST", "/templates"), ("DELETE", "/templates/base")):
        assert is_error(await api.request(method, path), 501, "not_supported")
