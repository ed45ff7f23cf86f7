"""Where events of a session are sent, and each sending (agent-sessions.md sections 3.16, 3.17)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from opencomputer.server.domain.secrets import Ciphertext
from opencomputer.server.domain.sessions.events import Level
from opencomputer.wire.ids import DeliveryId, DestinationId, EventId, SessionId

ATTEMPTS = 8
"""How often a delivery is tried before it is given up, and once more when it is asked for again."""

MOST_DESTINATIONS = 20
"""Of one session."""


@dataclass(frozen=True)
class Destination:
    """A webhook of one session. It gets events after `created_after_seq` that its filters let through.

    `types` None: all. `secrets` are the keys it signs with, newest first, each until the time beside it;
    None is for good.
    """

    id: DestinationId
    session_id: SessionId
    url: str
    level: Level
    types: tuple[str, ...] | None
    include_raw: bool
    enabled: bool
    secrets: tuple[tuple[Ciphertext, datetime | None], ...]
    created_after_seq: int
    created_at: datetime
    updated_at: datetime


class DeliveryStatus(StrEnum):
    PENDING = "pending"
    DELIVERING = "delivering"
    DELIVERED = "delivered"
    FAILED = "failed"
    DEAD_LETTER = "dead_letter"


@dataclass(frozen=True)
class Delivery:
    """One event on its way to one destination. `budget`: attempts left before it is given up."""

    id: DeliveryId
    session_id: SessionId
    destination_id: DestinationId
    event_id: EventId
    event_seq: int
    status: DeliveryStatus
    attempts: int
    budget: int
    due_at: datetime | None
    last_attempt_at: datetime | None
    response_code: int | None
    error: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class DeliveryFilter:
    """None: whatever it is."""

    destination_id: DestinationId | None = None
    status: DeliveryStatus | None = None
