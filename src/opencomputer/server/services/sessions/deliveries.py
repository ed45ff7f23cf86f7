"""Deliveries: what became of each event on its way to each destination, and sending it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.secrets import Keyring
from opencomputer.server.contracts.sessions import SessionTables
from opencomputer.server.contracts.webhooks import WebhookFault, WebhookSender
from opencomputer.server.domain.errors import InvalidInput, NotFound, SecretUnreadable
from opencomputer.server.domain.sessions.destinations import (
    Delivery,
    DeliveryFilter,
    DeliveryStatus,
    Destination,
)
from opencomputer.server.domain.sessions.errors import DestinationForbidden
from opencomputer.server.domain.sessions.webhooks import Attempt, after, signed_headers, webhook_body
from opencomputer.server.services.sessions.destinations import signing_secrets
from opencomputer.server.services.sessions.signals import Hint
from opencomputer.wire.ids import DeliveryId, OrgId, SessionId

_log = structlog.get_logger(__name__)

_HOLD = timedelta(seconds=60)
"""Longer than a sending takes. One that was taken by a node that died is sent again after this."""
_AT_ONCE = 128
_EACH_AT_ONCE = 4
_LONGEST_PAUSE_SECONDS = 30.0
_SHORTEST_PAUSE_SECONDS = 0.5
_REPAIR_SECONDS = 5.0
_REDIRECTS = range(300, 400)
_ERROR_CHARACTERS = 1024


class Deliveries:
    """Of sessions of one organisation; those of others are NotFound."""

    def __init__(self, tables: SessionTables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock

    async def list(
        self,
        org_id: OrgId,
        session_id: SessionId,
        wanted: DeliveryFilter,
        limit: int,
        after: str | None = None,
    ) -> Sequence[Delivery]:
        """Newest first; those that come behind `after`, the id of one of them. Raises InvalidInput."""
        await self._check_session(org_id, session_id)
        last: Delivery | None = None
        if after is not None:
            last = await self._tables.deliveries.get(session_id, DeliveryId(after))
            if last is None:
                raise InvalidInput("after must be the id of a delivery of this session", field="after")
        return await self._tables.deliveries.list(session_id, wanted, limit=limit, after=last)

    async def get(self, org_id: OrgId, session_id: SessionId, delivery_id: DeliveryId) -> Delivery:
        await self._check_session(org_id, session_id)
        found = await self._tables.deliveries.get(session_id, delivery_id)
        if found is None:
            raise NotFound("there is no such delivery")
        return found

    async def redeliver(self, org_id: OrgId, session_id: SessionId, delivery_id: DeliveryId) -> Delivery:
        """Send it again, whatever became of it, with as many attempts as a new one has."""
        await self.get(org_id, session_id, delivery_id)
        return await self._tables.deliveries.redeliver(delivery_id, self._clock.now())

    async def _check_session(self, org_id: OrgId, session_id: SessionId) -> None:
        if await self._tables.sessions.get(org_id, session_id) is None:
            raise NotFound("there is no such session")


class DeliveryHints(Protocol):
    def on_delivery(self) -> AbstractContextManager[Hint]:
        """Woken when something is to be delivered."""
        ...


@dataclass(frozen=True)
class Postage:
    """What sending takes."""

    sender: WebhookSender
    keyring: Keyring
    hints: DeliveryHints
    chance: Callable[[], float] = random.random


class DeliveryKeeper:
    """Sends what is due. At least once: what was taken by a node that died is sent again."""

    def __init__(self, tables: SessionTables, postage: Postage, clock: Clock) -> None:
        self._tables = tables
        self._postage = postage
        self._clock = clock
        self._sending: set[asyncio.Task[None]] = set()

    async def keep(self) -> None:
        """Send until cancelled."""
        try:
            with self._postage.hints.on_delivery() as hint:
                while True:
                    await hint.wait(await self._round())
        finally:
            for task in self._sending:
                task.cancel()
            await asyncio.gather(*self._sending, return_exceptions=True)

    async def _round(self) -> float:
        """Begin sending what is due; how long to wait then, unless something happens."""
        try:
            return await self._begin()
        except Exception:
            _log.exception("deliveries were not looked at; the next look tries again")
            return _REPAIR_SECONDS

    async def _begin(self) -> float:
        now = self._clock.now()
        free = _AT_ONCE - len(self._sending)
        if free <= 0:
            # Each that ends tells, and this is looked at again.
            return _LONGEST_PAUSE_SECONDS
        taken = await self._tables.deliveries.claim(now, now + _HOLD, limit=free, each=_EACH_AT_ONCE)
        for delivery in taken:
            task = asyncio.create_task(self._send(delivery), name=f"webhook {delivery.id}")
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        due = await self._tables.deliveries.next_due()
        if due is None:
            return _LONGEST_PAUSE_SECONDS
        wait = (due - self._clock.now()).total_seconds()
        return min(_LONGEST_PAUSE_SECONDS, max(_SHORTEST_PAUSE_SECONDS, wait))

    async def _send(self, delivery: Delivery) -> None:
        try:
            destination = await self._tables.destinations.get(delivery.session_id, delivery.destination_id)
            if destination is None:
                return
            if not destination.enabled:
                await self._put_back(delivery)
                return
            attempt = await self._attempt(delivery, destination)
            await self._tables.deliveries.settle(after(delivery, attempt, self._postage.chance()))
        except Exception:
            # The top of a task. It is held for a while yet, and then taken again.
            _log.exception("a webhook was not sent", delivery=delivery.id)

    async def _put_back(self, delivery: Delivery) -> None:
        """It was taken just before its destination was switched off: it waits, as the others do."""
        status = DeliveryStatus.FAILED if delivery.attempts else DeliveryStatus.PENDING
        await self._tables.deliveries.settle(replace(delivery, status=status, due_at=self._clock.now()))

    async def _attempt(self, delivery: Delivery, destination: Destination) -> Attempt:
        now = self._clock.now()
        session = await self._tables.sessions.find(delivery.session_id)
        event = await self._tables.log.event(delivery.session_id, delivery.event_id)
        # Neither is ever removed.
        assert session is not None
        assert event is not None
        body = webhook_body(session, event, include_raw=destination.include_raw)
        try:
            secrets = signing_secrets(destination, self._postage.keyring, now)
            headers = signed_headers(delivery, secrets, now, body)
            answer = await self._postage.sender.post(destination.url, headers, body)
        except SecretUnreadable:
            return Attempt(self._clock.now(), None, "the secret that signs cannot be read by the server")
        except (DestinationForbidden, WebhookFault) as error:
            return Attempt(self._clock.now(), None, error.message)
        return Attempt(
            self._clock.now(), answer.status, _told(answer.status, answer.excerpt), answer.retry_after
        )


def _told(status: int, excerpt: str) -> str:
    text = f"the receiver answered {status}"
    if status in _REDIRECTS:
        text += "; redirects are not followed"
    return (f"{text}: {excerpt}" if excerpt else text)[:_ERROR_CHARACTERS]
