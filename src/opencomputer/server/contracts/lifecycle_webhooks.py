"""Where destinations of sandboxes' events are kept, and what is on its way to them.

Who changes a sandbox writes what that tells of in the same transaction; see SandboxStore.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from opencomputer.server.domain.lifecycle_events import LifecycleEvent
from opencomputer.server.domain.lifecycle_webhooks import Message, Webhook
from opencomputer.wire.ids import MessageId, OrgId, WebhookId


class WebhookStore(Protocol):
    async def add(self, webhook: Webhook, *, most: int) -> None:
        """Raises Conflict when its idempotency key is taken, and when there are `most` of its kind already:
        for all sandboxes, or for the same one."""
        ...

    async def get(self, org_id: OrgId, webhook_id: WebhookId) -> Webhook | None: ...

    async def by_idempotency_key(self, org_id: OrgId, key: str) -> Webhook | None: ...

    async def list(self, org_id: OrgId) -> Sequence[Webhook]:
        """Oldest first."""
        ...

    async def change(
        self, org_id: OrgId, webhook_id: WebhookId, decide: Callable[[Webhook], Webhook]
    ) -> Webhook | None:
        """Decide from what is there, and write it before anybody else changes it; None when it is gone.

        What is on its way to one that is switched off is given up.
        """
        ...

    async def delete(self, org_id: OrgId, webhook_id: WebhookId) -> bool:
        """With everything that was on its way to it."""
        ...


class MessageStore(Protocol):
    async def add(self, webhook: Webhook, event: LifecycleEvent) -> Message | None:
        """None: the destination is gone, or switched off."""
        ...

    async def get(self, webhook_id: WebhookId, message_id: MessageId) -> Message | None: ...

    async def list(self, webhook_id: WebhookId, *, limit: int) -> Sequence[Message]:
        """Newest first."""
        ...

    async def claim(self, now: datetime, until: datetime, *, limit: int, each: int) -> Sequence[Message]:
        """Those of enabled destinations that are due longest; they are held `until` then.

        First attempts of what one destination is told of one sandbox are given out in their order, one at a
        time. No destination has more than `each` held at once.
        """
        ...

    async def settle(self, held: Message, after: Message) -> None:
        """Write down how an attempt ended, unless that which was `held` is not held any more, or anew."""
        ...

    async def redeliver(self, message_id: MessageId, budget: int, at: datetime) -> bool:
        """It is due now, with so many attempts. False: it is gone, or its destination is switched off."""
        ...

    async def next_due(self) -> datetime | None: ...

    async def sweep(self, before: datetime, *, keep: int) -> int:
        """Forget what has come to its end: before this, and all but the newest `keep` of each destination."""
        ...

    async def forget_stopped(self, before: datetime) -> int:
        """Remove the destinations of single sandboxes that stopped before this."""
        ...


@dataclass(frozen=True)
class WebhookTables:
    webhooks: WebhookStore
    messages: MessageStore
