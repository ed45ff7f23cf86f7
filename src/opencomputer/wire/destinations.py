"""`/v3/sessions/…/destinations` and `…/deliveries` (agent-sessions.md sections 3.16, 3.17)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from opencomputer.wire.model import Moment, PlainModel, PlainRequest

MAX_SECRET_BYTES = 1024
MAX_TYPES = 50


def _printable(secret: str) -> str:
    try:
        size = len(secret.encode())
    except UnicodeEncodeError:
        raise ValueError("must be valid Unicode") from None
    if size > MAX_SECRET_BYTES:
        raise ValueError(f"must be at most {MAX_SECRET_BYTES} bytes")
    return secret


Secret = Annotated[str, Field(min_length=1), AfterValidator(_printable)]
EventType = Annotated[str, Field(min_length=1, max_length=128)]
Types = Annotated[list[EventType], Field(max_length=MAX_TYPES)]
Level = Literal["user", "progress", "internal"]


class CreateDestination(PlainRequest):
    url: str
    secret: Secret | None = None
    level: Level = "user"
    types: Types | None = None
    include_raw: bool = False
    enabled: bool = True


class UpdateDestination(PlainRequest):
    """What is not named stays. `types` null: all; `secret` null: nothing is signed any more."""

    url: str = ""
    secret: Secret | None = None
    level: Level = "user"
    types: Types | None = None
    include_raw: bool = False
    enabled: bool = True


class DestinationView(PlainModel):
    """Never a secret."""

    id: str
    session: str
    kind: Literal["webhook"] = "webhook"
    url: str
    level: str
    types: list[str] | None
    include_raw: bool
    enabled: bool
    has_secret: bool
    created_after_seq: int
    created_at: Moment
    updated_at: Moment


class DestinationsView(PlainModel):
    data: list[DestinationView]
    next_cursor: None = None


class DeliveryView(PlainModel):
    id: str
    session: str
    destination: str
    event_id: str
    event_seq: int
    status: str
    attempts: int
    last_attempt_at: Moment | None
    response_code: int | None
    error: str | None
    created_at: Moment
    updated_at: Moment


class DeliveriesView(PlainModel):
    data: list[DeliveryView]
    next_cursor: str | None
