"""What holds for every route of /v3: credentials, the shape of errors, what browsers need."""

from __future__ import annotations

import httpx
import jwt
import pytest

from tests.api.v3.answers import error_of
from tests.support.node import Api

pytestmark = pytest.mark.anyio

# agent-sessions.md: parts that this server does not have yet.
NOT_IMPLEMENTED = [
    ("POST", "/agents/import"),
    ("GET", "/agents/agt_1/deployment-source"),
    ("POST", "/agents/agt_1/deployment-source/preview"),
    ("PUT", "/agents/agt_1/repository-access"),
    ("POST", "/agents/agt_1/slack/manifest"),
    ("GET", "/slack/managed/connections"),
    ("GET", "/agents/agt_1/config"),
    ("PUT", "/agents/agt_1/secrets/A"),
    ("POST", "/agents/agt_1/artifacts"),
    ("POST", "/sessions/ses_1/watches"),
    ("DELETE", "/sessions/ses_1/watches/wch_1"),
    ("GET", "/repos"),
    ("PATCH", "/repos/repo_1"),
    ("POST", "/github/deploy-app/inspect"),
    ("GET", "/github/apps"),
]


@pytest.mark.parametrize(("method", "path"), NOT_IMPLEMENTED)
async def test_what_is_not_there_yet_says_so(api: Api, method: str, path: str) -> None:
    error_of(await api.client.request(method, f"/v3{path}"), 501, "not_implemented")


async def test_what_is_no_route_is_not_found_in_the_same_shape(api: Api) -> None:
    for path in ("/v3", "/v3/", "/v3/nothing", "/v3/nothing/at/all"):
        error_of(await api.client.get(path), 404, "not_found")


async def test_another_method_is_refused_in_the_same_shape(api: Api) -> None:
    error_of(await api.client.request("OPTIONS", "/v3/repos"), 405, "method_not_allowed")


async def test_the_rest_of_the_server_keeps_its_shape(api: Api) -> None:
    answer = await api.client.get("/api/nothing")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert isinstance(answer.json()["error"], str)
    assert (await api.client.get("/v3nothing")).json()["code"] == "not_found"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer osb_0"},
        {"Authorization": "Bearer " + "osb_" + "00" * 32},
        {"Authorization": "Bearer eyJ"},
        {"Authorization": "Basic b3Ni"},
        {"X-API-Key": "osb_" + "00" * 32},
        {"X-API-Key": "eyJhbGciOiJub25lIn0.e30."},
    ],
)
async def test_without_a_valid_credential_nothing_is_told(api: Api, headers: dict[str, str]) -> None:
    async with httpx.AsyncClient(base_url=api.url, headers=headers) as stranger:
        error_of(await stranger.get("/v3/repos"), 401, "unauthorized")
        error_of(await stranger.get("/v3/repos?token=x&api_key=" + api.key), 401, "unauthorized")


async def test_a_key_may_stand_in_either_header_and_authorization_comes_first(api: Api) -> None:
    async with httpx.AsyncClient(base_url=api.url) as client:
        for headers in ({"Authorization": f"Bearer {api.key}"}, {"X-API-Key": api.key}):
            error_of(await client.get("/v3/repos", headers=headers), 501, "not_implemented")
        both = {"Authorization": "Bearer osb_0", "X-API-Key": api.key}
        error_of(await client.get("/v3/repos", headers=both), 401, "unauthorized")


async def test_a_sandboxs_token_opens_nothing_here(api: Api) -> None:
    sandbox = await api.create()
    headers = {"Authorization": f"Bearer {sandbox['token']}"}
    async with httpx.AsyncClient(base_url=api.url, headers=headers) as client:
        error_of(await client.get("/v3/repos"), 401, "unauthorized")
    await api.delete(f"/sandboxes/{sandbox['sandboxID']}")


async def test_a_forged_token_opens_nothing(api: Api) -> None:
    claims = {"sub": "ses_1", "own": "o", "scp": ["read"], "iat": 1, "exp": 2**33, "jti": "1"}
    forged_well = jwt.encode({**claims, "aud": "oc-session"}, "x" * 32, "HS256")
    unsigned = f"eyJhbGciOiJub25lIn0.{forged_well.split('.')[1]}."
    for forged in (forged_well, unsigned):
        headers = {"Authorization": f"Bearer {forged}"}
        async with httpx.AsyncClient(base_url=api.url, headers=headers) as client:
            error_of(await client.get("/v3/repos"), 401, "unauthorized")


async def test_any_page_may_call_and_read_even_failures(api: Api) -> None:
    origin = {"Origin": "https://app.example.com"}
    asked = {
        **origin,
        "Access-Control-Request-Method": "PATCH",
        "Access-Control-Request-Headers": "authorization,idempotency-key,last-event-id",
    }
    async with httpx.AsyncClient(base_url=api.url) as browser:
        allowed = await browser.options("/v3/sessions", headers=asked)
        assert allowed.status_code == 204
        assert allowed.headers["Access-Control-Allow-Origin"] == "https://app.example.com"
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            assert method in allowed.headers["Access-Control-Allow-Methods"]
        for name in ("Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "X-API-Key"):
            assert name in allowed.headers["Access-Control-Allow-Headers"]
        assert "Access-Control-Allow-Credentials" not in allowed.headers
        refused = await browser.get("/v3/repos", headers=origin)
        error_of(refused, 401, "unauthorized")
        assert refused.headers["Access-Control-Allow-Origin"] == "https://app.example.com"
        assert "Retry-After" in refused.headers["Access-Control-Expose-Headers"]
        assert "Origin" in refused.headers["Vary"]


async def test_nobody_is_told_where_a_page_came_from(api: Api) -> None:
    for path in ("/v3/repos", "/v3/nothing"):
        assert (await api.client.get(path)).headers["Referrer-Policy"] == "no-referrer"


async def test_tokens_in_addresses_are_not_logged(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    await api.client.get("/v3/sessions/ses_1/events?stream=sse&token=eyJsecret")
    logged = capsys.readouterr()
    assert "eyJsecret" not in logged.out + logged.err
    assert "/v3/sessions/ses_1/events" in logged.out + logged.err
