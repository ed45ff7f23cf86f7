"""Webhooks of sandboxes over HTTP: what is sent, to whom, and what is to be seen of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from opencomputer.sdk.durable.webhooks import verify_webhook
from tests.support.node import FIRST_KEY, Api, NodeFolder, api_of, kill_all
from tests.support.receivers import Received, answering, receiver

pytestmark = pytest.mark.anyio

NOWHERE = "http://127.0.0.1:9/hook"
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


@pytest.fixture(scope="module")
async def api(folder: NodeFolder) -> AsyncGenerator[Api]:
    """A node that sends to receivers on this machine."""
    async with (
        folder.running(POOL_MAX="1", ALLOW_PRIVATE_WEBHOOKS="1") as url,
        api_of(url, FIRST_KEY) as made,
    ):
        yield made
        await kill_all(made)


@pytest.fixture(autouse=True)
async def no_webhooks_left(api: Api) -> AsyncGenerator[None]:
    yield
    for each in (await api.get("/webhooks")).json()["data"]:
        await api.delete(f"/webhooks/{each['id']}")


async def made(api: Api, **fields: Any) -> dict[str, Any]:
    answer = await api.post("/webhooks", json={"url": NOWHERE, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def deliveries(api: Api, webhook: str) -> list[dict[str, Any]]:
    return (await api.get(f"/webhooks/{webhook}/deliveries")).json()["data"]


async def until(api: Api, webhook: str, **wanted: Any) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            [newest, *_] = await deliveries(api, webhook)
            if wanted.items() <= newest.items():
                return newest
            await asyncio.sleep(0.02)


def verified(received: Received, secret: str) -> dict[str, Any]:
    """The event that was sent, whose signature is right."""
    delivery = verify_webhook(received.body, received.headers, secret)
    whole = json.loads(received.body)
    assert delivery.dedupe_id == received.headers["svix-id"]
    assert (whole["type"], whole["sandboxId"], whole["eventId"]) == (
        whole["event"]["type"],
        whole["event"]["sandboxId"],
        whole["event"]["id"],
    )
    return whole["event"]


async def test_the_life_of_a_sandbox_arrives(api: Api) -> None:
    async with receiver() as there, receiver() as pinned:
        secret = (await made(api, url=there.url, metadata={"X-Team": "one"}))["secret"]
        sandbox = await api.create(webhooks=[{"url": pinned.url, "eventTypes": ["sandbox.checkpoint.*"]}])
        path = f"/sandboxes/{sandbox['sandboxID']}"
        await api.post(f"{path}/checkpoints", json={"name": "one"})
        await api.post(f"{path}/scale", json={"memoryMB": 8192})
        await api.post(f"{path}/preview", json={"port": 3000})
        [fork] = (await api.post(f"{path}/fork", json={})).json()
        await api.post(f"{path}/hibernate")
        await api.post(f"{path}/wake", json={})
        await api.delete(path)
        received = await there.wait_for(11)
        [checkpoint] = await pinned.wait_for(1)
    [asked] = sandbox["webhooks"]
    assert verified(checkpoint, asked["secret"])["type"] == "sandbox.checkpoint.created"
    assert {each.headers["x-team"] for each in received} == {"one"}
    events = [verified(each, secret) for each in received]
    own = [each for each in events if each["sandboxId"] == sandbox["sandboxID"]]
    told = {each["type"].removeprefix("sandbox."): each["data"] for each in own}
    assert [*told][:2] == ["created", "ready"]
    # A checkpoint is ready some time after it was asked for.
    assert {*[*told][2:-3]} == {"checkpoint.created", "scaled", "preview_url.changed"}
    assert [*told][-3:] == ["hibernated", "resumed", "stopped"]
    assert told["scaled"] == {"cpuCount": 2, "memoryMB": 8192}
    assert told["stopped"] == {"reason": "user_requested"}
    assert told["preview_url.changed"]["url"].endswith(api.url.rpartition(":")[2])
    others = [(each["type"], each["data"]) for each in events if each["sandboxId"] == fork["sandboxID"]]
    assert others == [
        ("sandbox.forked", {"parentId": sandbox["sandboxID"]}),
        ("sandbox.created", {"template": "base"}),
        ("sandbox.ready", {}),
    ]


async def test_a_destination_as_it_is_made_shown_and_listed(api: Api) -> None:
    webhook = await made(api, name="mine", eventTypes=["sandbox.*"], secret=SECRET)
    assert webhook == {
        "id": webhook["id"],
        "name": "mine",
        "url": NOWHERE,
        "eventTypes": ["sandbox.*"],
        "sandboxId": None,
        "enabled": True,
        "hasSecret": True,
        "createdAt": webhook["createdAt"],
        "updatedAt": webhook["createdAt"],
        "secret": SECRET,
    }
    del webhook["secret"]
    assert (await api.get("/webhooks")).json() == {"data": [webhook]}
    assert (await api.get(f"/webhooks/{webhook['id']}")).json() == webhook
    assert (await api.get(f"/webhooks/{webhook['id']}/secret")).json() == {"secret": SECRET}


async def test_changes_and_the_end_of_a_destination(api: Api) -> None:
    webhook = await made(api, eventTypes=["sandbox.stopped"], name="old")
    path = f"/webhooks/{webhook['id']}"
    changed = (await api.request("PATCH", path, json={"eventTypes": None, "enabled": False})).json()
    assert (changed["eventTypes"], changed["enabled"], changed["name"]) == ([], False, "old")
    assert "secret" not in changed
    assert (await api.post(f"{path}/test")).status_code == 409
    rotated = (await api.request("PATCH", path, json={"rotateSecret": True})).json()["secret"]
    assert rotated.startswith("whsec_")
    assert rotated != webhook["secret"]
    assert (await api.get(f"{path}/secret")).json() == {"secret": rotated}
    assert (await api.delete(path)).status_code == 204
    for method, below in [
        ("GET", ""),
        ("PATCH", ""),
        ("DELETE", ""),
        ("GET", "/deliveries"),
        ("POST", "/test"),
    ]:
        assert (await api.request(method, path + below)).status_code == 404


async def test_the_old_secret_signs_beside_the_new_one(api: Api) -> None:
    async with receiver() as there:
        webhook = await made(api, url=there.url)
        path = f"/webhooks/{webhook['id']}"
        rotated = (await api.request("PATCH", path, json={"rotateSecret": True})).json()
        test = (await api.post(f"{path}/test")).json()
        [received] = await there.wait_for(1)
    for each in (webhook, rotated):
        assert verified(received, each["secret"])["data"] == {"test": True}
    assert test == {"ok": True, "eventType": "sandbox.test", "messageId": received.headers["svix-id"]}


async def test_a_repeated_request_makes_nothing_twice(api: Api) -> None:
    headers = {"Idempotency-Key": "one"}
    first = await api.post("/webhooks", json={"url": NOWHERE}, headers=headers)
    again = await api.post("/webhooks", json={"url": NOWHERE}, headers=headers)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    other = await api.post("/webhooks", json={"url": f"{NOWHERE}2"}, headers=headers)
    assert other.status_code == 409
    assert len((await api.get("/webhooks")).json()["data"]) == 1


async def test_a_repeated_create_of_a_sandbox_tells_of_the_same_destinations(api: Api) -> None:
    body = {"webhooks": [{"url": NOWHERE}, {"url": NOWHERE, "secret": SECRET}]}
    answers = [
        (await api.post("/sandboxes", json=body, headers={"Idempotency-Key": "two"})).json() for _ in range(2)
    ]
    assert answers[0]["webhooks"] == answers[1]["webhooks"]
    assert ["secret" in each for each in answers[0]["webhooks"]] == [True, False]
    listed = (await api.get("/webhooks")).json()["data"]
    assert {each["sandboxId"] for each in listed} == {answers[0]["sandboxID"]}


async def test_what_was_sent_is_seen_and_sent_again(api: Api) -> None:
    async with receiver(answering(500, b"not now")) as there:
        webhook = await made(api, url=there.url, sandboxId=(await api.create())["sandboxID"])
        path = f"/webhooks/{webhook['id']}"
        message = (await api.post(f"{path}/test")).json()["messageId"]
        failed = await until(api, webhook["id"], attempts=1, responseStatusCode=500)
        assert (failed["id"], failed["status"]) == (message, "pending")
        assert failed["error"] == "the receiver answered 500: not now"
        there.respond = answering(204)
        again = await api.post(f"{path}/deliveries/{message}/redeliver")
        assert (again.status_code, again.json()) == (200, {"ok": True})
        delivered = await until(api, webhook["id"], status="success", responseStatusCode=204)
        assert delivered["attemptId"] != failed["attemptId"]
        first, second = there.received
    assert first.headers["svix-id"] == second.headers["svix-id"]
    whole = (await api.get(f"{path}/deliveries/{message}")).json()
    assert whole["payload"] == json.loads(first.body)
    assert (whole["id"], whole["eventType"]) == (message, "sandbox.test")
    assert whole["eventId"] == whole["payload"]["eventId"]
    assert (await api.get(f"{path}/deliveries/msg_none")).status_code == 404


@pytest.mark.parametrize(
    ("fields", "status", "field"),
    [
        ({"url": "ftp://example.com"}, 400, "url"),
        ({"url": 5}, 400, "url"),
        ({"eventTypes": ["sandbox.exploded"]}, 400, "eventTypes"),
        ({"metadata": {"svix-id": "x"}}, 400, "metadata"),
        ({"secret": ""}, 400, "secret"),
        ({"sandboxId": "sb-00000000"}, 404, "sandboxId"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    api: Api, fields: dict[str, Any], status: int, field: str
) -> None:
    answer = await api.post("/webhooks", json={"url": NOWHERE, **fields})
    assert (answer.status_code, answer.json()["field"]) == (status, field)


async def test_a_create_with_a_wrong_destination_makes_nothing(api: Api) -> None:
    before = (await api.get("/sandboxes")).json()
    for place, wrong in enumerate([{"url": "ftp://x"}, {"url": NOWHERE, "eventTypes": ["turn.*"]}]):
        answer = await api.post("/sandboxes", json={"webhooks": [{"url": NOWHERE}] * place + [wrong]})
        assert answer.status_code == 400
        assert answer.json()["field"].startswith(f"webhooks.{place}.")
    assert (await api.get("/sandboxes")).json() == before


async def test_nobody_sees_another_organisations_destinations(api: Api, other: Api) -> None:
    path = f"/webhooks/{(await made(api))['id']}"
    assert (await other.get("/webhooks")).json() == {"data": []}
    for method, below in [("GET", ""), ("GET", "/secret"), ("PATCH", ""), ("DELETE", ""), ("POST", "/test")]:
        assert (await other.request(method, path + below)).status_code == 404
