"""`/auth/cli/…`: a login from the first request to the revoked key, and the page where it is approved."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest

from tests.support.node import Api

pytestmark = pytest.mark.anyio

PAGE = "/auth/cli/verify"


async def begin(api: Api) -> dict[str, Any]:
    answer = await api.client.post("/auth/cli/device", headers={"X-API-Key": ""})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def exchange(api: Api, started: dict[str, Any], name: str = "oc CLI on laptop") -> httpx.Response:
    body = {"device_code": started["device_code"], "credential_name": name}
    return await api.client.post("/auth/cli/device/exchange", json=body, headers={"X-API-Key": ""})


async def submit(api: Api, code: str, key: str, decision: str = "approve", **headers: str) -> httpx.Response:
    form = {"user_code": code, "api_key": key, "decision": decision}
    return await api.client.post(PAGE, data=form, headers={"X-API-Key": "", **headers})


async def test_from_the_first_request_to_the_revoked_key(
    api: Api, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    started = await begin(api)
    assert started["verification_uri"] == f"{api.url}{PAGE}"
    assert started["verification_uri_complete"] == f"{api.url}{PAGE}?code={started['user_code']}"
    assert started["device_code"] not in started["verification_uri_complete"]
    pending = await exchange(api, started)
    assert (pending.status_code, pending.json()) == (
        202,
        {"status": "authorization_pending", "retry_after": started["interval"]},
    )
    approved = await submit(api, started["user_code"], api.key)
    assert approved.status_code == 200
    assert "Signed in" in approved.text
    answer = await exchange(api, started)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    credential = answer.json()["credential"]
    assert credential["name"] == "oc CLI on laptop"
    assert credential["key"].startswith(credential["key_prefix"])
    mine = {"X-API-Key": credential["key"]}
    assert (await api.get("/whoami", headers=mine)).json() == (await api.get("/whoami")).json()
    assert credential["id"] in [key["id"] for key in (await api.get("/api-keys")).json()]
    assert (await api.client.delete("/auth/cli/credential", headers=mine)).status_code == 204
    assert (await api.get("/whoami", headers=mine)).status_code == 401
    assert (await exchange(api, started)).json()["code"] == "authorization_expired"
    logged = caplog.text + "".join(capfd.readouterr())
    for secret in (credential["key"], started["device_code"], started["user_code"], api.key):
        assert secret not in logged


async def test_the_key_of_another_organisation_lets_in_there(api: Api, other: Api) -> None:
    started = await begin(api)
    decided = await other.client.post("/auth/cli/device/decide", json={"user_code": started["user_code"]})
    assert decided.json() == {"status": "approved", "requested_from": "127.0.0.1"}
    key = (await exchange(api, started)).json()["credential"]["key"]
    assert (await api.get("/whoami", headers={"X-API-Key": key})).json()["org_name"] == "another"


async def test_a_denial_is_told(api: Api) -> None:
    started = await begin(api)
    assert "Denied" in (await submit(api, started["user_code"], api.key, "deny")).text
    answer = await exchange(api, started)
    assert (answer.status_code, answer.json()["code"]) == (403, "authorization_denied")


async def test_without_a_valid_key_nothing_is_decided(api: Api) -> None:
    started = await begin(api)
    for key in ("", "nonsense", "osb_" + "0" * 64):
        answer = await submit(api, started["user_code"], key)
        assert answer.status_code == 401
        assert "no valid API key" in answer.text
        if key:
            assert key not in answer.text
    body = {"user_code": started["user_code"]}
    refused = await api.client.post("/auth/cli/device/decide", json=body, headers={"X-API-Key": "wrong"})
    assert refused.status_code == 401
    assert (await exchange(api, started)).status_code == 202


async def test_a_wrong_code_is_told_and_the_key_is_not_shown_again(api: Api) -> None:
    answer = await submit(api, "BBBB-BBBB", api.key)
    assert answer.status_code == 404
    assert "BBBB-BBBB" in answer.text
    assert api.key not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_only_its_own_form_may_send(api: Api, headers: dict[str, str]) -> None:
    started = await begin(api)
    answer = await submit(api, started["user_code"], api.key, **headers)
    assert answer.status_code == 403
    assert (await exchange(api, started)).status_code == 202


async def test_the_page_escapes_everything_and_runs_nothing(api: Api) -> None:
    evil = '"><script>alert(1)</script>'
    for answer in (await api.client.get(PAGE, params={"code": evil}), await submit(api, evil, api.key)):
        assert "<script" not in answer.text
        assert "&lt;script" in answer.text
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "script-src" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-frame-options"] == "DENY"


async def test_its_own_form_is_taken(api: Api) -> None:
    started = await begin(api)
    page = await api.client.get(PAGE, params={"code": started["user_code"]})
    assert f'value="{started["user_code"]}"' in page.text
    assert 'type="password"' in page.text
    headers = {"Origin": api.url, "Sec-Fetch-Site": "same-origin"}
    assert (await submit(api, started["user_code"], api.key, **headers)).status_code == 200


@pytest.mark.parametrize("body", [b"\xff\xfe", b"x" * 5000, b"&".join([b"a=b"] * 20), b""])
async def test_a_form_that_is_none_is_refused(api: Api, body: bytes) -> None:
    answer = await api.client.post(PAGE, content=body, headers={"X-API-Key": ""})
    assert answer.status_code in (400, 401)
    assert answer.headers["content-type"].startswith("text/html")


async def test_a_device_code_that_never_was_is_expired(api: Api) -> None:
    answer = await exchange(api, {"device_code": "nonsense"})
    assert (answer.status_code, answer.json()["code"]) == (400, "authorization_expired")
    answer = await api.client.post("/auth/cli/device/exchange", json={})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
