"""Where events of a session are sent, and each sending (agent-sessions.md sections 3.16, 3.17)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from opencomputer.server.domain.sessions.events import Level
from opencomputer.server.domain.webhooks.attempts import DeliveryStatus, Dispatch, Schedule
from opencomputer.server.domain.webhooks.signing import SealedSecrets
from opencomputer.wire.ids import DeliveryId, DestinationId, EventId, SessionId

SCHEDULE = Schedule(
    tuple(timedelta(seconds=seconds) for seconds in (5, 30, 2 * 60, 10 * 60, 30 * 60, 2 * 3600, 6 * 3600)),
    final={410},
)
ATTEMPTS = SCHEDULE.attempts

MOST_DESTINATIONS = 20
"""Of one session."""


@dataclass(frozen=True)
class Destination:
    """A webhook of one session. It gets events after `created_after_seq` that its filters let through.

    `types` None: all.
    """

    id: DestinationId
    session_id: SessionId
    url: str
    level: Level
    types: tuple[str, ...] | None
    include_raw: bool
    enabled: bool
    secrets: SealedSecrets
    created_after_seq: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class Delivery(Dispatch):
    """One event on its way to one destination."""

    id: DeliveryId
    destination_id: DestinationId
    event_id: EventId
    session_id: SessionId
    event_seq: int


@dataclass(frozen=True)
class DeliveryFilter:
    """None: whatever it is."""

    destination_id: DestinationId | None = None
    status: DeliveryStatus | None = None
