"""`/api/webhooks`: where events of sandboxes are sent (sandbox-wire.md section 18)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictStr

from opencomputer.wire.destinations import MAX_TYPES, Secret
from opencomputer.wire.model import WireModel, optional

MAX_INLINE = 20

Url = Annotated[StrictStr, Field(min_length=1, max_length=2048)]
EventTypes = Annotated[
    list[Annotated[StrictStr, Field(min_length=1, max_length=128)]], Field(max_length=MAX_TYPES)
]
Name = Annotated[StrictStr, Field(max_length=200)]


class InlineWebhook(WireModel):
    """One for a sandbox that is about to be made."""

    url: Url
    secret: Secret | None = None
    """What signs; one is made if none is given."""
    event_types: EventTypes | None = None
    """`sandbox.stopped`, `sandbox.checkpoint.*` …; all if nothing is said."""


class CreateWebhook(InlineWebhook):
    name: Name | None = None
    sandbox_id: Annotated[StrictStr | None, Field(alias="sandboxId")] = None
    """Only its events are sent; without it, those of all sandboxes of the organisation."""
    enabled: StrictBool | None = None
    metadata: dict[StrictStr, StrictStr] | None = None
    """Headers that go with all that is sent there."""


class UpdateWebhook(WireModel):
    """What is not named stays. `eventTypes` null: all."""

    url: Url | None = None
    name: Name | None = None
    enabled: StrictBool | None = None
    event_types: EventTypes | None = None
    rotate_secret: StrictBool | None = None
    """Make another secret; the present one signs beside it for a day."""


class WebhookView(WireModel):
    """`secret` is only in the answer that made it."""

    id: str
    name: str | None
    url: str
    event_types: list[str]
    """Empty: all."""
    sandbox_id: Annotated[str | None, Field(serialization_alias="sandboxId")]
    enabled: bool
    has_secret: bool
    created_at: datetime
    updated_at: datetime
    secret: str | None = optional()


class WebhooksView(WireModel):
    data: list[WebhookView]


class InlineWebhookView(WireModel):
    """What came of one that was asked for with a sandbox. `secret` is there when the server made it."""

    id: str
    url: str
    secret: str | None = optional()


class WebhookSecretView(WireModel):
    secret: str


class WebhookTestView(WireModel):
    ok: Literal[True] = True
    event_type: str
    message_id: str


DeliveryState = Literal["success", "pending", "failed"]


class WebhookDeliveryView(WireModel):
    """One event on its way. `timestamp`: of the last attempt, or of the event when there was none."""

    id: str
    attempt_id: str
    event_type: str
    status: DeliveryState
    attempts: int
    response_status_code: int | None = optional()
    error: str | None = optional()
    next_attempt_at: datetime | None = optional()
    timestamp: datetime


class WebhookDeliveriesView(WireModel):
    data: list[WebhookDeliveryView]


class WebhookMessageView(WireModel):
    """`payload` is what the receiver gets."""

    id: str
    event_type: str
    event_id: str
    payload: dict[str, Any]
    timestamp: datetime


class RedeliveredView(WireModel):
    ok: Literal[True] = True
