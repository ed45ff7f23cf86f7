"""Destinations and deliveries over HTTP, as clients know them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from prometheus_client import CollectorRegistry

from opencomputer.server.domain.sessions.access import Scope, TokenRequest
from opencomputer.server.domain.sessions.session import Session
from opencomputer.server.domain.webhooks.attempts import DeliveryStatus
from opencomputer.server.http.access_log import AccessLog
from opencomputer.server.http.session_api.app import create_session_api
from opencomputer.server.services.access import Access
from opencomputer.server.services.facade import Services
from opencomputer.server.services.sessions.client_tokens import ClientTokens
from opencomputer.server.services.sessions.destinations import Destinations
from opencomputer.server.stores.sql.api_keys import SqlApiKeyStore
from opencomputer.server.stores.sql.organisations import SqlOrganisationStore
from opencomputer.server.webhooks.sender import HttpWebhookSender
from tests.support.receivers import answering, receiver
from tests.support.webhook_world import World, webhook_world

pytestmark = pytest.mark.anyio

TARGET = "http://127.0.0.1:9/hook"


class Api:
    """The routes, for two organisations: the first one's session is `session`."""

    def __init__(self, world: World, client: httpx.AsyncClient, session: Session, stranger: str) -> None:
        self.world = world
        self.client = client
        self.session = session
        self.stranger = stranger

    async def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        return await self.client.request(method, f"/v3/sessions/{self.session.id}{path}", **options)

    async def registered(self, **fields: Any) -> dict[str, Any]:
        answer = await self.call("POST", "/destinations", json={"url": TARGET, **fields})
        assert answer.status_code == 201, answer.text
        return answer.json()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncGenerator[Api]:
    async with webhook_world(tmp_path) as world:
        access = Access(
            SqlOrganisationStore(world.database), SqlApiKeyStore(world.database), world.clock, b"s" * 32
        )
        mine, other = [await access.create_organisation(name) for name in ("mine", "other")]
        world.organisation = SimpleNamespace(id=mine.record.org_id)  # pyright: ignore[reportAttributeAccessIssue] # its id is all that counts
        session = await world.session()
        tokens = ClientTokens(b"t" * 32, world.clock)
        durable = SimpleNamespace(
            destinations=world.destinations, deliveries=world.deliveries, client_tokens=tokens
        )
        services = cast(Services, SimpleNamespace(access=access, durable=durable, clock=world.clock))
        app = AccessLog(create_session_api(services), CollectorRegistry())
        headers = {"X-API-Key": mine.secret}
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://server", headers=headers
        ) as client:
            yield Api(world, client, session, other.secret)


async def test_a_destination_as_it_is_made_shown_and_listed(api: Api) -> None:
    made = await api.registered(secret="hush", types=["turn.*", "agent.message"])
    assert made == {
        "id": made["id"],
        "session": api.session.id,
        "kind": "webhook",
        "url": TARGET,
        "level": "user",
        "types": ["turn.*", "agent.message"],
        "include_raw": False,
        "enabled": True,
        "has_secret": True,
        "created_after_seq": 1,
        "created_at": made["created_at"],
        "updated_at": made["updated_at"],
    }
    assert made["id"].startswith("dst_")
    assert made["created_at"].endswith("Z")
    assert (await api.call("GET", f"/destinations/{made['id']}")).json() == made
    assert (await api.call("GET", "/destinations")).json() == {"data": [made], "next_cursor": None}
    assert "hush" not in (await api.call("GET", "/destinations")).text


async def test_what_is_named_changes_and_what_is_not_stays(api: Api) -> None:
    made = await api.registered(secret="hush", types=["turn.*"], level="internal")
    path = f"/destinations/{made['id']}"
    changed = (await api.call("PATCH", path, json={"types": None, "enabled": False})).json()
    assert changed == {**made, "types": None, "enabled": False, "updated_at": changed["updated_at"]}
    assert (await api.call("PATCH", path, json={"types": []})).json()["types"] is None
    assert (await api.call("PATCH", path, json={"secret": None})).json()["has_secret"] is False
    assert (await api.call("PATCH", path, json={})).json()["level"] == "internal"
    assert (await api.call("DELETE", path)).status_code == 204
    assert (await api.call("GET", path)).status_code == 404
    assert (await api.call("DELETE", path)).status_code == 404


@pytest.mark.parametrize(
    ("fields", "status", "parameter"),
    [
        ({"url": 7}, 400, "url"),
        ({"url": None}, 400, "url"),
        ({"level": "secret"}, 400, "level"),
        ({"types": "turn.*"}, 400, "types"),
        ({"types": [""]}, 400, "types.0"),
        ({"types": ["x"] * 51}, 400, "types"),
        ({"secret": ""}, 400, "secret"),
        ({"secret": "x" * 1025}, 400, "secret"),
        ({"enabled": "yes"}, 400, "enabled"),
        ({"include_raw": None}, 400, "include_raw"),
        ({"url": "ftp://x/"}, 422, "url"),
        ({"url": "http://user@x/"}, 422, "url"),
    ],
)
async def test_what_is_wrong_is_refused_by_name(
    api: Api, fields: dict[str, Any], status: int, parameter: str
) -> None:
    made = await api.registered()
    for method, path in (("POST", "/destinations"), ("PATCH", f"/destinations/{made['id']}")):
        answer = await api.call(method, path, json={"url": TARGET, **fields})
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (status, parameter)
        assert error["type"] == ("invalid" if status == 400 else "destination_url_forbidden")


async def test_a_private_target_is_refused(api: Api) -> None:
    world, strict = api.world, HttpWebhookSender()
    careful = Destinations(world.tables, strict, world.keyring, world.clock)
    world.destinations.__dict__.update(careful.__dict__)
    for url in ("https://127.0.0.1/", "https://169.254.169.254/", "http://example.com/"):
        answer = await api.call("POST", "/destinations", json={"url": url})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "destination_url_forbidden")
    await strict.close()


async def test_a_session_has_at_most_twenty(api: Api) -> None:
    for _ in range(20):
        await api.registered()
    answer = await api.call("POST", "/destinations", json={"url": TARGET})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "limit_reached")


async def test_deliveries_are_listed_looked_at_and_sent_again(api: Api) -> None:
    async with receiver(answering(410, b"moved away")) as there, api.world.sending():
        destination = await api.registered(url=there.url)
        for number in range(3):
            await api.world.say(api.session, str(number))
        await api.world.until(api.session, DeliveryStatus.DEAD_LETTER, 3)
        first = (await api.call("GET", "/deliveries", params={"limit": 2})).json()
        assert [each["event_seq"] for each in first["data"]] == [4, 3]
        rest = (await api.call("GET", "/deliveries", params={"after": first["next_cursor"]})).json()
        assert (len(rest["data"]), rest["next_cursor"]) == (1, None)
        shown = rest["data"][0]
        assert shown == {
            "id": shown["id"],
            "session": api.session.id,
            "destination": destination["id"],
            "event_id": shown["event_id"],
            "event_seq": 2,
            "status": "dead_letter",
            "attempts": 1,
            "last_attempt_at": shown["last_attempt_at"],
            "response_code": 410,
            "error": "the receiver answered 410: moved away",
            "created_at": shown["created_at"],
            "updated_at": shown["updated_at"],
        }
        there.respond = answering(204)
        again = await api.call("POST", f"/deliveries/{shown['id']}/redeliver")
        assert (again.status_code, again.json()["status"], again.json()["id"]) == (
            202,
            "pending",
            shown["id"],
        )
        await api.world.until(api.session, DeliveryStatus.DELIVERED)
        after = (await api.call("GET", f"/deliveries/{shown['id']}")).json()
        assert (after["status"], after["attempts"], after["error"]) == ("delivered", 2, None)


async def test_deliveries_are_listed_by_destination_and_by_status(api: Api) -> None:
    destination, other = await api.registered(), await api.registered(types=["nothing"])
    for _ in range(3):
        await api.world.say(api.session)
    for query, count in (
        ({"destination": other["id"]}, 0),
        ({"destination": destination["id"], "status": "pending"}, 3),
        ({"status": "delivered"}, 0),
    ):
        listed = (await api.call("GET", "/deliveries", params=query)).json()["data"]
        assert len(listed) == count


@pytest.mark.parametrize("query", [{"status": "lost"}, {"limit": "0"}, {"after": "dlv_nothing"}])
async def test_a_query_that_means_nothing_is_refused(api: Api, query: dict[str, str]) -> None:
    answer = await api.call("GET", "/deliveries", params=query)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] in query


async def test_others_learn_nothing_and_a_client_token_opens_none_of_it(api: Api) -> None:
    made = await api.registered()
    wanted = TokenRequest((Scope.READ, Scope.STEER), timedelta(minutes=1))
    token = (
        ClientTokens(b"t" * 32, api.world.clock)
        .mint(api.world.organisation.id, api.session.id, wanted)
        .secret
    )
    for method, path in (
        ("GET", "/destinations"),
        ("POST", "/destinations"),
        ("GET", f"/destinations/{made['id']}"),
        ("PATCH", f"/destinations/{made['id']}"),
        ("DELETE", f"/destinations/{made['id']}"),
        ("GET", "/deliveries"),
        ("GET", "/deliveries/dlv_x"),
        ("POST", "/deliveries/dlv_x/redeliver"),
    ):
        body = {"json": {"url": TARGET}} if method in ("POST", "PATCH") else {}
        stranger = await api.call(method, path, headers={"X-API-Key": api.stranger}, **body)
        assert stranger.status_code == 404, (method, path)
        client = await api.call(method, path, headers={"Authorization": f"Bearer {token}"}, **body)
        assert client.status_code == 403, (method, path)
    assert (await api.call("GET", f"/destinations/{made['id']}")).json() == made
