"""Where the events of sandboxes' lives are sent, and each of them on its way (sandbox-wire.md section 18)."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.lifecycle_events import NO_SANDBOX, TEST, TYPES, LifecycleEvent, document_of
from opencomputer.server.domain.webhooks.attempts import DeliveryStatus, Dispatch, Schedule
from opencomputer.server.domain.webhooks.signing import SealedSecrets, signatures, stamp_of
from opencomputer.wire.ids import EventId, MessageId, OrgId, SandboxId, WebhookId

SCHEDULE = Schedule(
    tuple(
        timedelta(seconds=seconds)
        for seconds in (5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 10 * 3600)
    )
)

MOST_WEBHOOKS = 50
"""For all sandboxes of one organisation."""
MOST_OF_SANDBOX = 20
"""For one sandbox."""
MOST_HEADERS = 20
MOST_TYPES = 50

KEPT_MESSAGES = 1000
"""Of one destination, besides those still on their way."""
KEPT_FOR = timedelta(days=30)
KEPT_AFTER_STOP = timedelta(days=7)
"""For how long the destinations of one sandbox outlive it: longer than anything is tried."""

SWITCHED_OFF = "the webhook was switched off"

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE = re.compile(r"[!-~](?:[ -~]{0,998}[!-~])?")
_OURS = re.compile(
    r"svix-.*|webhook-.*|content-.*|host|user-agent|connection|transfer-encoding|te|trailer|upgrade|expect"
    r"|keep-alive|proxy-.*|accept(?:-encoding)?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Webhook:
    """A destination. `types` empty: all. `sandbox_id` None: for all sandboxes of the organisation.

    `headers` go with all that is sent there. `request_hash` tells whether a repeated key means the same.
    """

    id: WebhookId
    org_id: OrgId
    name: str | None
    url: str
    types: tuple[str, ...]
    sandbox_id: SandboxId | None
    enabled: bool
    headers: Mapping[str, str] = field(repr=False)
    secrets: SealedSecrets
    idempotency_key: str | None
    request_hash: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class Message(Dispatch):
    """One event on its way to one destination. It keeps its id, however often it is sent."""

    id: MessageId
    destination_id: WebhookId
    event_id: EventId
    sandbox_id: SandboxId
    event: LifecycleEvent


@dataclass(frozen=True)
class WebhookSecretPlace:
    """Where a destination's secrets belong. They open in this place only."""

    org_id: OrgId
    webhook_id: WebhookId

    @property
    def associated_data(self) -> bytes:
        return "\0".join(("sandbox webhook", self.org_id, self.webhook_id)).encode()


def new_webhook_id() -> WebhookId:
    return WebhookId(f"whk_{secrets.token_hex(12)}")


def inline_webhook_id(sandbox_id: SandboxId, place: int) -> WebhookId:
    """Of those that a create names: found again by their place in it, without being kept anywhere."""
    return WebhookId(f"whk_{hashlib.sha256(f'{sandbox_id} {place}'.encode()).hexdigest()[:24]}")


def checked_types(types: Sequence[str], where: str) -> tuple[str, ...]:
    """Exact names, or `prefix.*`; each must let something through. Raises InvalidInput."""
    for each in types:
        if not any(_matches(each, type) for type in TYPES):
            raise InvalidInput(
                f"{where} {each[:100]!r} is not an event of a sandbox; they are {', '.join(TYPES)}, "
                "or a beginning of these with .*",
                field=where,
            )
    return tuple(dict.fromkeys(types))


def checked_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Raises InvalidInput for what is no header, or one of those that every delivery has."""
    if len(headers) > MOST_HEADERS:
        raise InvalidInput(f"metadata must have at most {MOST_HEADERS} entries", field="metadata")
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or _OURS.fullmatch(name):
            raise InvalidInput(f"metadata {name[:100]!r} cannot be sent as a header", field="metadata")
        if not _VALUE.fullmatch(value):
            raise InvalidInput(
                f"metadata {name!r} must have 1 to 1000 visible ASCII characters", field="metadata"
            )
    return headers


def wants(webhook: Webhook, type: str) -> bool:
    return not webhook.types or any(_matches(pattern, type) for pattern in webhook.types)


def _matches(pattern: str, type: str) -> bool:
    if pattern.endswith(".*"):
        return type.startswith(pattern[:-1])
    return pattern == type


def message_of(webhook: Webhook, event: LifecycleEvent) -> Message:
    """To one that is switched off nothing goes, now or later; but it is seen, and can be asked for."""
    digest = hashlib.sha256(f"{webhook.id} {event.id}".encode()).hexdigest()
    on = webhook.enabled
    return Message(
        id=MessageId(f"msg_{digest[:24]}"),
        destination_id=webhook.id,
        event_id=event.id,
        sandbox_id=event.sandbox_id,
        event=event,
        status=DeliveryStatus.PENDING if on else DeliveryStatus.DEAD_LETTER,
        attempts=0,
        budget=SCHEDULE.attempts if on else 0,
        due_at=event.at if on else None,
        last_attempt_at=None,
        response_code=None,
        error=None if on else SWITCHED_OFF,
        created_at=event.at,
        updated_at=event.at,
    )


def trial_event(webhook: Webhook, at: datetime) -> LifecycleEvent:
    event_id = EventId(f"evt_{secrets.token_hex(12)}")
    about = webhook.sandbox_id or NO_SANDBOX
    return LifecycleEvent(event_id, TEST, at, webhook.org_id, about, {"test": True})


def body_of(event: LifecycleEvent) -> bytes:
    return json.dumps(document_of(event), separators=(",", ":")).encode()


def headers_of(
    webhook: Webhook, message: Message, secrets: Sequence[str], at: datetime, body: bytes
) -> Mapping[str, str]:
    """The headers of one sending, under both families of names that verifiers look for."""
    signed = {
        "id": message.id,
        "timestamp": stamp_of(at),
        "signature": signatures(secrets, message.id, at, body),
    }
    ours = {f"{family}-{name}": value for family in ("svix", "webhook") for name, value in signed.items()}
    usual = {"Content-Type": "application/json", "User-Agent": "OpenComputer-Webhooks"}
    return {**webhook.headers, **usual, **ours}
