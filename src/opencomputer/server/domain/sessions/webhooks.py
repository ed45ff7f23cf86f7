"""What is sent to a destination, and how it is signed (section 3.17)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from opencomputer.server.domain.sessions.destinations import Delivery
from opencomputer.server.domain.sessions.event_documents import event_document
from opencomputer.server.domain.sessions.events import Event
from opencomputer.server.domain.sessions.session import Session
from opencomputer.server.domain.webhooks.signing import signatures, stamp_of
from opencomputer.wire.ids import DestinationId, SessionId


@dataclass(frozen=True)
class SigningSecretPlace:
    """Where a destination's secrets belong. They open in this place only."""

    session_id: SessionId
    destination_id: DestinationId

    @property
    def associated_data(self) -> bytes:
        return "\0".join(("webhook", self.session_id, self.destination_id)).encode()


def signed_headers(
    delivery: Delivery, secrets: Sequence[str], at: datetime, body: bytes
) -> Mapping[str, str]:
    """The headers of one sending. Receivers know an event by `webhook-id`, however often it is sent."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "OpenComputer-Webhooks",
        "webhook-id": delivery.event_id,
        "webhook-timestamp": stamp_of(at),
        "X-OC-Delivery-ID": delivery.id,
        "X-OC-Session-ID": delivery.session_id,
    }
    if secrets:
        headers["webhook-signature"] = signatures(secrets, delivery.event_id, at, body)
    return headers


def webhook_body(session: Session, event: Event, *, include_raw: bool) -> bytes:
    document = event_document(event)
    if not include_raw:
        document["body"] = {name: value for name, value in event.body.items() if name != "raw"}
    whole: Mapping[str, Any] = {
        "type": event.type,
        "sessionId": session.id,
        "eventId": event.id,
        "metadata": session.metadata,
        "event": document,
    }
    # Escaped: half a surrogate pair has no UTF-8.
    return json.dumps(whole, separators=(",", ":")).encode()
