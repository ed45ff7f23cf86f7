"""Where a credential may stand, and what each kind of credential opens."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import jwt
import pytest

from tests.api.routes import (
    CONTROL,
    CONTROL_OF_ONE,
    DATA_PLANE,
    OF_ONE_SANDBOX,
    OFFERED,
    OWN_SANDBOX,
    body_of,
    filled,
)
from tests.support.node import Api, NodeFolder
from tests.support.waiting import ANSWER_SECONDS

pytestmark = pytest.mark.anyio


@pytest.fixture
async def anonymous(api: Api) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"{api.url}/api", timeout=ANSWER_SECONDS) as client:
        yield client


@pytest.fixture(scope="module")
async def token(api: Api, sandbox: str) -> str:
    return (await api.get(f"/sandboxes/{sandbox}")).json()["token"]


def carriers(credential: str) -> dict[str, dict[str, Any]]:
    """Every place in which a request may carry a credential."""
    return {
        "X-API-Key": {"headers": {"X-API-Key": credential}},
        "Authorization": {"headers": {"Authorization": f"Bearer {credential}"}},
        "authorization in another case": {"headers": {"authorization": f"bearer {credential}"}},
        "?api_key=": {"params": {"api_key": credential}},
        "?token=": {"params": {"token": credential}},
    }


@pytest.mark.parametrize("place", carriers(""))
async def test_a_key_may_stand_in_each_place(api: Api, anonymous: httpx.AsyncClient, place: str) -> None:
    answer = await anonymous.get("/whoami", **carriers(api.key)[place])
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("place", carriers(""))
async def test_a_sandbox_token_may_stand_in_each_place(
    anonymous: httpx.AsyncClient, sandbox: str, token: str, place: str
) -> None:
    answer = await anonymous.get(f"/sandboxes/{sandbox}/exec", **carriers(token)[place])
    assert answer.status_code == 200, answer.text


WRONG = ["wrong", "-", "osb_" + "0" * 64, "a.b.c", "Bearer", "x" * 8000]


@pytest.mark.parametrize("place", carriers(""))
@pytest.mark.parametrize("credential", WRONG)
async def test_a_wrong_credential_in_any_place_is_refused(
    anonymous: httpx.AsyncClient, place: str, credential: str
) -> None:
    answer = await anonymous.get("/whoami", **carriers(credential)[place])
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")


async def test_an_empty_credential_is_none(anonymous: httpx.AsyncClient) -> None:
    empty: list[dict[str, Any]] = [{"headers": {"X-API-Key": ""}}, {"params": {"api_key": "", "token": ""}}]
    for options in empty:
        assert (await anonymous.get("/whoami", **options)).status_code == 401


async def test_bytes_that_are_no_text_are_refused_too(anonymous: httpx.AsyncClient) -> None:
    answer = await anonymous.get("/whoami", headers={b"X-API-Key": b"\xff\xfe\xb2"})
    assert answer.status_code == 401


async def test_a_wrong_credential_is_not_passed_over_for_a_right_one(
    api: Api, anonymous: httpx.AsyncClient
) -> None:
    answer = await anonymous.get("/whoami", headers={"X-API-Key": "wrong"}, params={"api_key": api.key})
    assert answer.status_code == 401


@pytest.mark.parametrize(("method", "path"), OFFERED)
async def test_every_route_needs_a_credential(
    anonymous: httpx.AsyncClient, sandbox: str, method: str, path: str
) -> None:
    answer = await anonymous.request(method, filled(path, sandbox), **body_of(path))
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")


@pytest.mark.parametrize(("method", "path"), OFFERED)
async def test_a_stranger_learns_nothing_by_a_bad_body(
    anonymous: httpx.AsyncClient, method: str, path: str
) -> None:
    answer = await anonymous.request(method, filled(path, "sb-00000000"), content=b"{")
    assert answer.status_code == 401


# Sandbox tokens


@pytest.mark.parametrize(("method", "path"), [*DATA_PLANE, *OWN_SANDBOX])
async def test_a_token_opens_the_data_plane_of_its_sandbox(
    anonymous: httpx.AsyncClient, sandbox: str, token: str, method: str, path: str
) -> None:
    answer = await anonymous.request(
        method, filled(path, sandbox), headers={"X-API-Key": token}, **body_of(path)
    )
    assert answer.status_code not in (401, 403), answer.text


@pytest.mark.parametrize(("method", "path"), OF_ONE_SANDBOX)
async def test_a_token_opens_no_other_sandbox(
    anonymous: httpx.AsyncClient, token: str, method: str, path: str
) -> None:
    """Whether there is such a sandbox makes no difference."""
    answer = await anonymous.request(
        method, filled(path, "sb-00000000"), headers={"X-API-Key": token}, **body_of(path)
    )
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize(("method", "path"), [*CONTROL, *CONTROL_OF_ONE])
async def test_a_token_opens_no_control_route(
    anonymous: httpx.AsyncClient, sandbox: str, token: str, method: str, path: str
) -> None:
    answer = await anonymous.request(
        method, filled(path, sandbox), headers={"X-API-Key": token}, **body_of(path)
    )
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_a_token_can_be_exchanged_for_a_fresh_one(
    anonymous: httpx.AsyncClient, sandbox: str, token: str
) -> None:
    answer = await anonymous.post(f"/sandboxes/{sandbox}/token/refresh", headers={"X-API-Key": token})
    fresh = answer.json()["token"]
    again = await anonymous.get(f"/sandboxes/{sandbox}/exec", params={"token": fresh})
    assert again.status_code == 200


def forged(folder: NodeFolder, **claims: Any) -> str:
    """A token signed with the node's own secret."""

    identity = json.loads((folder.data / "node.json").read_text())
    expires = datetime.now(UTC) + timedelta(hours=1)
    whole = {"org_id": "o", "sandbox_id": "s", "exp": int(expires.timestamp()), **claims}
    return jwt.encode(whole, bytes.fromhex(identity["tokenSecret"]), algorithm="HS256")


async def test_an_expired_token_is_refused_with_a_code(
    api: Api, folder: NodeFolder, anonymous: httpx.AsyncClient, sandbox: str
) -> None:
    org = (await api.get("/whoami")).json()["org_id"]
    path = f"/sandboxes/{sandbox}/exec"
    good = forged(folder, org_id=org, sandbox_id=sandbox)
    assert (await anonymous.get(path, params={"token": good})).status_code == 200
    expired = forged(folder, org_id=org, sandbox_id=sandbox, exp=int(datetime.now(UTC).timestamp()) - 1)
    answer = await anonymous.get(path, params={"token": expired})
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")


async def test_a_token_of_another_organisation_does_not_reach_a_sandbox_of_the_same_id(
    folder: NodeFolder, anonymous: httpx.AsyncClient, sandbox: str
) -> None:
    stranger = forged(folder, org_id="another", sandbox_id=sandbox)
    answer = await anonymous.get(f"/sandboxes/{sandbox}/exec", params={"token": stranger})
    assert answer.status_code == 404


async def test_a_token_dies_with_its_sandbox(api: Api, anonymous: httpx.AsyncClient) -> None:
    made = await api.create()
    await api.delete(f"/sandboxes/{made['sandboxID']}")
    answer = await anonymous.get(f"/sandboxes/{made['sandboxID']}/exec", params={"token": made["token"]})
    assert (answer.status_code, answer.json()["code"]) == (410, "sandbox_stopped")
    refreshed = await anonymous.post(
        f"/sandboxes/{made['sandboxID']}/token/refresh", headers={"X-API-Key": made["token"]}
    )
    assert refreshed.status_code == 410


# Keys


async def test_a_key_is_shown_once_and_stops_working_at_once(api: Api, anonymous: httpx.AsyncClient) -> None:
    created = (await api.post("/api-keys", json={"name": "for a while"})).json()
    listed = (await api.get("/api-keys")).json()
    assert created["key"] not in str(listed)
    assert created["prefix"] == created["key"][: len(created["prefix"])]
    assert created["id"] in [key["id"] for key in listed]
    headers = {"X-API-Key": created["key"]}
    assert (await anonymous.get("/whoami", headers=headers)).status_code == 200
    assert (await api.delete(f"/api-keys/{created['id']}")).status_code == 204
    assert (await anonymous.get("/whoami", headers=headers)).status_code == 401
    assert (await api.delete(f"/api-keys/{created['id']}")).status_code == 204
    revoked = {key["id"]: key for key in (await api.get("/api-keys")).json()}[created["id"]]
    assert revoked["revokedAt"]


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": 5}, {"name": "x" * 129}, {"name": None}])
async def test_a_key_needs_a_name(api: Api, body: dict[str, Any]) -> None:
    answer = await api.post("/api-keys", json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, "name")


async def test_a_key_of_another_organisation_is_not_there(api: Api, other: Api) -> None:
    theirs = (await other.get("/api-keys")).json()
    assert {key["id"] for key in theirs}.isdisjoint(key["id"] for key in (await api.get("/api-keys")).json())
    answer = await api.delete(f"/api-keys/{theirs[0]['id']}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert (await other.get("/whoami")).status_code == 200
