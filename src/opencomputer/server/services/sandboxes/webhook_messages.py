"""What was told of sandboxes: looking at it, sending it again, sending it at all, and forgetting it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.lifecycle_webhooks import MessageStore, WebhookTables
from opencomputer.server.contracts.secrets import Keyring
from opencomputer.server.domain.errors import Conflict, NotFound
from opencomputer.server.domain.lifecycle_webhooks import (
    KEPT_AFTER_STOP,
    KEPT_FOR,
    KEPT_MESSAGES,
    SCHEDULE,
    Message,
    Webhook,
    body_of,
    headers_of,
    trial_event,
)
from opencomputer.server.domain.webhooks.attempts import Attempt, after
from opencomputer.server.services.repeating import repeat
from opencomputer.server.services.sandboxes.webhooks import Webhooks, signing_secrets
from opencomputer.server.services.webhooks.keeper import Letter
from opencomputer.wire.ids import MessageId, OrgId, WebhookId

_log = structlog.get_logger(__name__)

SHOWN = 50
_PAUSE_SECONDS = 3600.0


class WebhookMessages:
    """Of destinations of one organisation; those of others are NotFound."""

    def __init__(self, messages: MessageStore, webhooks: Webhooks, clock: Clock) -> None:
        self._messages = messages
        self._webhooks = webhooks
        self._clock = clock

    async def list(self, org_id: OrgId, webhook_id: WebhookId) -> Sequence[Message]:
        """The newest, newest first."""
        await self._webhooks.get(org_id, webhook_id)
        return await self._messages.list(webhook_id, limit=SHOWN)

    async def get(self, org_id: OrgId, webhook_id: WebhookId, message_id: MessageId) -> Message:
        await self._webhooks.get(org_id, webhook_id)
        found = await self._messages.get(webhook_id, message_id)
        if found is None:
            raise NotFound("there is no such delivery")
        return found

    async def redeliver(self, org_id: OrgId, webhook_id: WebhookId, message_id: MessageId) -> None:
        """Send it again, whatever became of it, with as many attempts as a new one has. Raises Conflict."""
        await self.get(org_id, webhook_id, message_id)
        if not await self._messages.redeliver(message_id, SCHEDULE.attempts, self._clock.now()):
            await self._enabled(org_id, webhook_id)
            raise NotFound("there is no such delivery")

    async def test(self, org_id: OrgId, webhook_id: WebhookId) -> Message:
        """Send something that did not happen. Raises Conflict."""
        webhook = await self._enabled(org_id, webhook_id)
        message = await self._messages.add(webhook, trial_event(webhook, self._clock.now()))
        if message is None:
            # Switched off just now, or removed.
            await self._enabled(org_id, webhook_id)
            raise NotFound("there is no such webhook")
        return message

    async def _enabled(self, org_id: OrgId, webhook_id: WebhookId) -> Webhook:
        webhook = await self._webhooks.get(org_id, webhook_id)
        if not webhook.enabled:
            raise Conflict("the webhook is switched off")
        return webhook


class LifecycleMail:
    """Implements Mail: what is told of sandboxes."""

    def __init__(self, tables: WebhookTables, keyring: Keyring, clock: Clock) -> None:
        self._tables = tables
        self._keyring = keyring
        self._clock = clock

    async def claim(self, now: datetime, until: datetime, *, limit: int, each: int) -> Sequence[Message]:
        return await self._tables.messages.claim(now, until, limit=limit, each=each)

    async def next_due(self) -> datetime | None:
        return await self._tables.messages.next_due()

    async def letter(self, sent: Message, at: datetime) -> Letter | None:
        webhook = await self._tables.webhooks.get(sent.event.org_id, sent.destination_id)
        if webhook is None or not webhook.enabled:
            # With it went what was on its way, or was given up.
            return None
        body = body_of(sent.event)
        secrets = signing_secrets(webhook, self._keyring, self._clock)
        return Letter(webhook.url, headers_of(webhook, sent, secrets, at, body), body)

    async def settle(self, sent: Message, attempt: Attempt, chance: float) -> None:
        await self._tables.messages.settle(sent, after(sent, attempt, SCHEDULE, chance))


class WebhookUpkeep:
    """Keeps what was told within bounds."""

    def __init__(self, messages: MessageStore, clock: Clock) -> None:
        self._messages = messages
        self._clock = clock

    async def keep(self) -> None:
        """Sweep until cancelled."""
        await repeat(
            self.sweep,
            self._clock,
            pause_seconds=_PAUSE_SECONDS,
            complaint="old deliveries of webhooks were not removed; the next sweep tries again",
        )

    async def sweep(self) -> None:
        now = self._clock.now()
        removed = await self._messages.sweep(now - KEPT_FOR, keep=KEPT_MESSAGES)
        forgotten = await self._messages.forget_stopped(now - KEPT_AFTER_STOP)
        if removed or forgotten:
            _log.info("removed old deliveries of webhooks", deliveries=removed, webhooks=forgotten)
