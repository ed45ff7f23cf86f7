"""Webhooks of sandboxes, put together."""

from __future__ import annotations

from dataclasses import dataclass

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.lifecycle_webhooks import WebhookTables
from opencomputer.server.contracts.secrets import Keyring
from opencomputer.server.contracts.stores import SandboxStore
from opencomputer.server.contracts.webhooks import WebhookSender
from opencomputer.server.domain.lifecycle_webhooks import Message
from opencomputer.server.services.hints import Bell
from opencomputer.server.services.sandboxes.webhook_messages import (
    LifecycleMail,
    WebhookMessages,
    WebhookUpkeep,
)
from opencomputer.server.services.sandboxes.webhooks import Webhooks
from opencomputer.server.services.webhooks.keeper import DeliveryKeeper, Postage


@dataclass(frozen=True)
class LifecycleWebhookStorage:
    """`bell` is rung whenever something of sandboxes is to be told."""

    tables: WebhookTables
    bell: Bell


@dataclass(frozen=True)
class WebhookServices:
    records: Webhooks
    messages: WebhookMessages
    keeper: DeliveryKeeper[Message]
    upkeep: WebhookUpkeep


def webhook_services(
    storage: LifecycleWebhookStorage,
    sandboxes: SandboxStore,
    sender: WebhookSender,
    keyring: Keyring,
    clock: Clock,
) -> WebhookServices:
    tables, postage = storage.tables, Postage(sender, storage.bell.heard)
    records = Webhooks(tables, sandboxes, sender, keyring, clock)
    return WebhookServices(
        records,
        WebhookMessages(tables.messages, records, clock),
        DeliveryKeeper(LifecycleMail(tables, keyring, clock), postage, clock),
        WebhookUpkeep(tables.messages, clock),
    )
