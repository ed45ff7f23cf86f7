"""`Webhooks` of sandboxes: what is asked, and what becomes of the answers."""

from __future__ import annotations

import pytest

from opencomputer import (
    ConflictError,
    Sandbox,
    WebhookAttempt,
    WebhookDestination,
    WebhookMessage,
    Webhooks,
    WebhookTest,
)
from tests.support.fake_node import FakeNode, Rule
from tests.unit.sdk.exchanges import Asked, Exchange, check, check_unsupported

pytestmark = pytest.mark.anyio

_ANSWER = {
    "id": "whk_1",
    "name": None,
    "url": "https://example.com/hook",
    "eventTypes": ["sandbox.stopped"],
    "sandboxId": None,
    "enabled": True,
    "hasSecret": True,
    "createdAt": "2026-01-02T03:04:05Z",
    "updatedAt": "2026-01-02T03:04:06Z",
}
_URL = "https://example.com/hook"


def destination(secret: str | None = None) -> WebhookDestination:
    return WebhookDestination(
        id="whk_1",
        name=None,
        url=_URL,
        event_types=["sandbox.stopped"],
        sandbox_id=None,
        enabled=True,
        has_secret=True,
        created_at="2026-01-02T03:04:05Z",
        updated_at="2026-01-02T03:04:06Z",
        secret=secret,
    )


EXCHANGES = (
    Exchange[Webhooks](
        "create",
        lambda webhooks: webhooks.create(
            _URL,
            name="ops",
            secret="whsec_x",
            event_types=("sandbox.stopped", "sandbox.checkpoint.*"),
            sandbox_id="sb-1",
            enabled=False,
        ),
        Asked(
            "POST",
            "/webhooks",
            {
                "url": _URL,
                "name": "ops",
                "secret": "whsec_x",
                "eventTypes": ["sandbox.stopped", "sandbox.checkpoint.*"],
                "sandboxId": "sb-1",
                "enabled": False,
            },
        ),
        {**_ANSWER, "secret": "whsec_x"},
        destination("whsec_x"),
        201,
    ),
    Exchange[Webhooks](
        "create with no more than an address",
        lambda webhooks: webhooks.create(_URL),
        Asked("POST", "/webhooks", {"url": _URL}),
        _ANSWER,
        destination(),
        201,
    ),
    Exchange[Webhooks](
        "list",
        lambda webhooks: webhooks.list(),
        Asked("GET", "/webhooks"),
        {"data": [_ANSWER]},
        [destination()],
    ),
    Exchange[Webhooks](
        "bare list", lambda webhooks: webhooks.list(), Asked("GET", "/webhooks"), [_ANSWER], [destination()]
    ),
    Exchange[Webhooks](
        "get", lambda webhooks: webhooks.get("whk_1"), Asked("GET", "/webhooks/whk_1"), _ANSWER, destination()
    ),
    Exchange[Webhooks](
        "secret",
        lambda webhooks: webhooks.get_secret("whk_1"),
        Asked("GET", "/webhooks/whk_1/secret"),
        {"secret": "whsec_x"},
        "whsec_x",
    ),
    Exchange[Webhooks](
        "an update without a filter leaves it",
        lambda webhooks: webhooks.update("whk_1", url=_URL, enabled=False, name="new"),
        Asked("PATCH", "/webhooks/whk_1", {"url": _URL, "enabled": False, "name": "new"}),
        _ANSWER,
        destination(),
    ),
    Exchange[Webhooks](
        "an update with no filter clears it",
        lambda webhooks: webhooks.update("whk_1", event_types=None),
        Asked("PATCH", "/webhooks/whk_1", {"eventTypes": None}),
        _ANSWER,
        destination(),
    ),
    Exchange[Webhooks](
        "an update with a filter sets it",
        lambda webhooks: webhooks.update("whk_1", event_types=("sandbox.*",)),
        Asked("PATCH", "/webhooks/whk_1", {"eventTypes": ["sandbox.*"]}),
        _ANSWER,
        destination(),
    ),
    Exchange[Webhooks](
        "a new secret",
        lambda webhooks: webhooks.update("whk_1", rotate_secret=True),
        Asked("PATCH", "/webhooks/whk_1", {"rotateSecret": True}),
        {**_ANSWER, "secret": "whsec_new"},
        destination("whsec_new"),
    ),
    Exchange[Webhooks](
        "delete",
        lambda webhooks: webhooks.delete("whk_1"),
        Asked("DELETE", "/webhooks/whk_1"),
        None,
        None,
        204,
    ),
    Exchange[Webhooks](
        "test",
        lambda webhooks: webhooks.test("whk_1"),
        Asked("POST", "/webhooks/whk_1/test"),
        {"ok": True, "eventType": "sandbox.test", "messageId": "msg_1"},
        WebhookTest(True, "sandbox.test", "msg_1"),
    ),
    Exchange[Webhooks](
        "deliveries",
        lambda webhooks: webhooks.deliveries.list("whk_1"),
        Asked("GET", "/webhooks/whk_1/deliveries"),
        {
            "data": [
                {
                    "id": "msg_1",
                    "attemptId": "atmpt_1",
                    "status": "failed",
                    "responseStatusCode": 500,
                    "timestamp": "2026-01-02T03:04:05Z",
                },
                {"id": "msg_2", "status": "pending"},
            ]
        },
        [
            WebhookAttempt("msg_1", "failed", 500, "2026-01-02T03:04:05Z", "atmpt_1"),
            WebhookAttempt("msg_2", "pending"),
        ],
    ),
    Exchange[Webhooks](
        "one delivery",
        lambda webhooks: webhooks.deliveries.get("whk_1", "msg_1"),
        Asked("GET", "/webhooks/whk_1/deliveries/msg_1"),
        {"id": "msg_1", "eventType": "sandbox.test", "eventId": "evt_1", "payload": {"a": 1}},
        WebhookMessage("msg_1", "sandbox.test", "evt_1", {"a": 1}),
    ),
    Exchange[Webhooks](
        "redeliver",
        lambda webhooks: webhooks.deliveries.redeliver("whk_1", "msg_1"),
        Asked("POST", "/webhooks/whk_1/deliveries/msg_1/redeliver"),
        {"ok": True},
        None,
    ),
)


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda each: each.id)
async def test_webhooks(node: FakeNode, exchange: Exchange[Webhooks]) -> None:
    async with Webhooks(node.api_key, node.url) as webhooks:
        await check(node, webhooks, exchange)
        await check_unsupported(node, webhooks, exchange)


async def test_a_create_is_repeated_under_its_key(node: FakeNode) -> None:
    async with Webhooks(node.api_key, node.url) as webhooks:
        node.rules.append(Rule("POST", "/webhooks", 502, {"error": "no"}))
        node.rules.append(Rule("POST", "/webhooks", 201, _ANSWER))
        await webhooks.create(_URL)
        node.rules.append(Rule("POST", "/webhooks", 201, _ANSWER))
        await webhooks.create(_URL, idempotency_key="mine")
    lost, again, own = (seen.headers["idempotency-key"] for seen in node.seen)
    assert lost == again
    assert own == "mine" != lost


async def test_a_key_for_something_else_is_a_conflict(node: FakeNode) -> None:
    node.rules.append(Rule("POST", "/webhooks", 409, {"error": "other body"}))
    async with Webhooks(node.api_key, node.url) as webhooks:
        with pytest.raises(ConflictError):
            await webhooks.create(_URL, idempotency_key="mine")


async def test_secrets_are_not_shown(node: FakeNode) -> None:
    assert "whsec" not in repr(destination("whsec_x"))


async def test_a_sandbox_can_be_created_with_its_own(node: FakeNode) -> None:
    made = [{"id": "whk_1", "url": _URL, "secret": "whsec_x"}]
    node.rules.append(Rule("POST", "/sandboxes", 201, {"sandboxID": "sb-1", "webhooks": made}))
    hooks = [{"url": _URL, "eventTypes": ["sandbox.stopped"]}]
    sandbox = await Sandbox.create(api_key=node.api_key, api_url=node.url, webhooks=hooks)
    assert node.requests("POST", "/sandboxes")[0].body == {
        "templateID": "base",
        "timeout": 0,
        "webhooks": hooks,
    }
    assert sandbox.webhooks == made
    node.rules.append(Rule("GET", "/sandboxes/sb-1", 200, {"sandboxID": "sb-1", "webhooks": []}))
    node.rules.append(Rule("POST", "/sandboxes/sb-1/wake", 200, {}))
    await sandbox.wake()
    assert sandbox.webhooks == made, "the secrets are told only once"
    await sandbox.close()
