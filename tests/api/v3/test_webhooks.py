"""Webhooks of a whole node: registered over HTTP, sent by its keeper, and again after a restart."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from opencomputer.sdk.durable.webhooks import verify_webhook
from tests.support.node import FIRST_KEY, NodeFolder
from tests.support.receivers import Receiver, answering, receiver
from tests.support.waiting import ANSWER_SECONDS

pytestmark = pytest.mark.anyio

SECRET = "plain, not base64"


async def created(client: httpx.AsyncClient, **fields: Any) -> str:
    """A new session."""
    agent = {"name": "hooked", "runtime": "scripted", "model": "scripted/echo", "prompt": "Help."}
    made = await client.post("/v3/agents", json=agent)
    assert made.status_code in (200, 201), made.text
    answer = await client.post("/v3/sessions", json={"agent": "hooked", "input": {"text": "hi"}, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()["session"]["id"]


async def heard(there: Receiver, event_type: str) -> bytes:
    """The body of the first webhook of this type."""
    async with asyncio.timeout(60):
        while True:
            for each in there.received:
                if f'"type":"{event_type}"'.encode() in each.body:
                    return each.body
            there.heard.clear()
            await there.heard.wait()


async def test_webhooks_arrive_and_what_a_node_did_not_send_its_successor_does(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = NodeFolder(tmp_path_factory.mktemp("node"))
    options = {"POOL_MAX": "0", "ALLOW_PRIVATE_WEBHOOKS": "1", "MODEL_PROVIDER": "scripted"}
    headers = {"Authorization": f"Bearer {FIRST_KEY}"}
    async with receiver() as inline, receiver(answering(500)) as signed:
        async with (
            folder.running(**options) as url,
            httpx.AsyncClient(base_url=url, headers=headers, timeout=ANSWER_SECONDS) as client,
        ):
            session_id = await created(client, webhook=inline.url)
            path = f"/v3/sessions/{session_id}"
            made = await client.post(f"{path}/destinations", json={"url": signed.url, "secret": SECRET})
            assert made.status_code == 201, made.text
            await heard(inline, "user.message")
            assert "webhook-signature" not in inline.received[0].headers
            await client.post(f"{path}/messages", json={"text": "again"})
            await signed.wait_for(1)
            await client.post(f"{path}/archive")
        signed.respond = answering(200)
        count = len(signed.received)
        async with (
            folder.running(**options) as url,
            httpx.AsyncClient(base_url=url, headers=headers, timeout=ANSWER_SECONDS) as client,
        ):
            listed = (
                await client.get(f"{path}/deliveries", params={"destination": made.json()["id"]})
            ).json()
            assert (await client.post(f"{path}/deliveries/{listed['data'][-1]['id']}/redeliver")).is_success
            received = (await signed.wait_for(count + 1))[-1]
            verify_webhook(received.body, received.headers, SECRET)
            assert received.headers["webhook-id"] in {each["event_id"] for each in listed["data"]}
