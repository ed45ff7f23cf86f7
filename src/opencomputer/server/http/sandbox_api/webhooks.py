"""`/api/webhooks`: where events of sandboxes are sent, and what became of each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import JSONResponse, Response

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.lifecycle_events import document_of
from opencomputer.server.domain.lifecycle_webhooks import Message, Webhook
from opencomputer.server.domain.webhooks.attempts import DeliveryStatus
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.body import json_body
from opencomputer.server.http.description import repeated
from opencomputer.server.http.sandbox_api.sandboxes import idempotency_key
from opencomputer.server.services.sandboxes.webhooks import WantedWebhook, WebhookChanges
from opencomputer.wire.ids import MessageId, SandboxId, WebhookId
from opencomputer.wire.webhooks import (
    CreateWebhook,
    DeliveryState,
    RedeliveredView,
    UpdateWebhook,
    WebhookDeliveriesView,
    WebhookDeliveryView,
    WebhookMessageView,
    WebhookSecretView,
    WebhooksView,
    WebhookTestView,
    WebhookView,
)

router = APIRouter(prefix="/webhooks")

_SHOWN: Mapping[DeliveryStatus, DeliveryState] = {
    DeliveryStatus.DELIVERED: "success",
    DeliveryStatus.DEAD_LETTER: "failed",
}
_CHANGEABLE = {"url": "url", "name": "name", "enabled": "enabled", "event_types": "types"}


@router.post("", status_code=201, response_model=WebhookView, responses=repeated(WebhookView))
async def create(
    caller: Key,
    services: ServicesOf,
    body: Annotated[CreateWebhook, Depends(json_body(CreateWebhook))],
    key: Annotated[str | None, Depends(idempotency_key)],
) -> WebhookView | Response:
    """What happens to sandboxes from now on is sent there, signed with the secret in this answer."""
    made = await services.webhooks.records.create(caller.org_id, _wanted(body, key))
    view = _shown(made.webhook, made.secret)
    if made.is_new:
        return view
    return JSONResponse(view.model_dump(mode="json"))


@router.get("")
async def list_webhooks(caller: Key, services: ServicesOf) -> WebhooksView:
    found = await services.webhooks.records.list(caller.org_id)
    return WebhooksView(data=[_shown(each) for each in found])


@router.get("/{webhook_id}")
async def get(webhook_id: str, caller: Key, services: ServicesOf) -> WebhookView:
    return _shown(await services.webhooks.records.get(caller.org_id, WebhookId(webhook_id)))


@router.get("/{webhook_id}/secret")
async def get_secret(webhook_id: str, caller: Key, services: ServicesOf) -> WebhookSecretView:
    secret = await services.webhooks.records.secret(caller.org_id, WebhookId(webhook_id))
    return WebhookSecretView(secret=secret)


@router.patch("/{webhook_id}")
async def update(
    webhook_id: str,
    caller: Key,
    services: ServicesOf,
    body: Annotated[UpdateWebhook, Depends(json_body(UpdateWebhook))],
) -> WebhookView:
    """What is on its way to one that is switched off is given up."""
    made = await services.webhooks.records.update(caller.org_id, WebhookId(webhook_id), _changes(body))
    return _shown(made.webhook, made.secret)


@router.delete("/{webhook_id}", status_code=204)
async def delete(webhook_id: str, caller: Key, services: ServicesOf) -> Response:
    await services.webhooks.records.delete(caller.org_id, WebhookId(webhook_id))
    return Response(status_code=204)


@router.post("/{webhook_id}/test")
async def send_test(webhook_id: str, caller: Key, services: ServicesOf) -> WebhookTestView:
    """Send a `sandbox.test` event there."""
    message = await services.webhooks.messages.test(caller.org_id, WebhookId(webhook_id))
    return WebhookTestView(event_type=message.event.type, message_id=message.id)


@router.get("/{webhook_id}/deliveries")
async def list_deliveries(webhook_id: str, caller: Key, services: ServicesOf) -> WebhookDeliveriesView:
    """The newest 50, newest first."""
    found = await services.webhooks.messages.list(caller.org_id, WebhookId(webhook_id))
    return WebhookDeliveriesView(data=[_delivery(each) for each in found])


@router.get("/{webhook_id}/deliveries/{message_id}")
async def get_delivery(
    webhook_id: str, message_id: str, caller: Key, services: ServicesOf
) -> WebhookMessageView:
    found = await services.webhooks.messages.get(caller.org_id, WebhookId(webhook_id), MessageId(message_id))
    return WebhookMessageView(
        id=found.id,
        event_type=found.event.type,
        event_id=found.event.id,
        payload=dict(document_of(found.event)),
        timestamp=found.event.at,
    )


@router.post("/{webhook_id}/deliveries/{message_id}/redeliver")
async def redeliver(webhook_id: str, message_id: str, caller: Key, services: ServicesOf) -> RedeliveredView:
    """Send it once more, under the same id, whatever became of it."""
    await services.webhooks.messages.redeliver(caller.org_id, WebhookId(webhook_id), MessageId(message_id))
    return RedeliveredView()


def _wanted(body: CreateWebhook, key: str | None) -> WantedWebhook:
    return WantedWebhook(
        url=body.url,
        name=body.name or None,
        secret=body.secret,
        types=tuple(body.event_types or ()),
        sandbox_id=None if body.sandbox_id is None else SandboxId(body.sandbox_id),
        enabled=body.enabled is not False,
        headers=body.metadata or {},
        idempotency_key=key,
        request_hash=hashlib.sha256(body.model_dump_json().encode()).hexdigest(),
    )


def _changes(body: UpdateWebhook) -> WebhookChanges:
    named = body.model_fields_set
    if "url" in named and body.url is None:
        raise InvalidInput("url: must be a string", field="url")
    values = WantedWebhook(
        url=body.url or "",
        name=body.name or None,
        types=tuple(body.event_types or ()),
        enabled=body.enabled is not False,
    )
    changed = frozenset(ours for theirs, ours in _CHANGEABLE.items() if theirs in named)
    return WebhookChanges(changed, values, rotate_secret=body.rotate_secret is True)


def _shown(webhook: Webhook, secret: str | None = None) -> WebhookView:
    return WebhookView(
        id=webhook.id,
        name=webhook.name,
        url=webhook.url,
        event_types=list(webhook.types),
        sandbox_id=webhook.sandbox_id,
        enabled=webhook.enabled,
        has_secret=bool(webhook.secrets),
        created_at=webhook.created_at,
        updated_at=webhook.updated_at,
        secret=secret,
    )


def _delivery(message: Message) -> WebhookDeliveryView:
    waiting = message.due_at if message.status is not DeliveryStatus.DELIVERING else None
    return WebhookDeliveryView(
        id=message.id,
        attempt_id=f"atmpt_{message.id.removeprefix('msg_')}_{message.attempts}",
        event_type=message.event.type,
        status=_SHOWN.get(message.status, "pending"),
        attempts=message.attempts,
        response_status_code=message.response_code,
        error=message.error,
        next_attempt_at=waiting,
        timestamp=message.last_attempt_at or message.created_at,
    )
