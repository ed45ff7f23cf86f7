"""Deliveries: what became of each event on its way to each destination, and what is sent there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.secrets import Keyring
from opencomputer.server.contracts.sessions import SessionTables
from opencomputer.server.domain.errors import InvalidInput, NotFound
from opencomputer.server.domain.sessions.destinations import SCHEDULE, Delivery, DeliveryFilter
from opencomputer.server.domain.sessions.webhooks import signed_headers, webhook_body
from opencomputer.server.domain.webhooks.attempts import Attempt, DeliveryStatus
from opencomputer.server.domain.webhooks.attempts import after as became
from opencomputer.server.services.sessions.destinations import signing_secrets
from opencomputer.server.services.webhooks.keeper import Letter
from opencomputer.wire.ids import DeliveryId, OrgId, SessionId


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


class SessionMail:
    """Implements Mail: what sessions have to tell."""

    def __init__(self, tables: SessionTables, keyring: Keyring, clock: Clock) -> None:
        self._tables = tables
        self._keyring = keyring
        self._clock = clock

    async def claim(self, now: datetime, until: datetime, *, limit: int, each: int) -> Sequence[Delivery]:
        return await self._tables.deliveries.claim(now, until, limit=limit, each=each)

    async def next_due(self) -> datetime | None:
        return await self._tables.deliveries.next_due()

    async def letter(self, sent: Delivery, at: datetime) -> Letter | None:
        destination = await self._tables.destinations.get(sent.session_id, sent.destination_id)
        if destination is None:
            return None
        if not destination.enabled:
            await self._put_back(sent)
            return None
        session = await self._tables.sessions.find(sent.session_id)
        event = await self._tables.log.event(sent.session_id, sent.event_id)
        # Neither is ever removed.
        assert session is not None
        assert event is not None
        body = webhook_body(session, event, include_raw=destination.include_raw)
        secrets = signing_secrets(destination, self._keyring, at)
        return Letter(destination.url, signed_headers(sent, secrets, at, body), body)

    async def settle(self, sent: Delivery, attempt: Attempt, chance: float) -> None:
        await self._tables.deliveries.settle(sent, became(sent, attempt, SCHEDULE, chance))

    async def _put_back(self, delivery: Delivery) -> None:
        """It was taken just before its destination was switched off: it waits, as the others do."""
        status = DeliveryStatus.FAILED if delivery.attempts else DeliveryStatus.PENDING
        waiting = replace(delivery, status=status, due_at=self._clock.now())
        await self._tables.deliveries.settle(delivery, waiting)
