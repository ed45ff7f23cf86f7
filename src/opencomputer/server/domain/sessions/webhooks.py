"""What is sent to a destination, how it is signed, and when it is tried again (section 3.17)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from opencomputer.server.domain.sessions.destinations import ATTEMPTS, Delivery, DeliveryStatus, Destination
from opencomputer.server.domain.sessions.event_documents import event_document
from opencomputer.server.domain.sessions.events import Event
from opencomputer.server.domain.sessions.session import Session
from opencomputer.wire.ids import DestinationId, SessionId

ROTATION = timedelta(hours=24)
"""For how long a secret goes on signing beside the one that replaced it."""
MAX_SECRET_BYTES = 1024

_PREFIX = "whsec_"
_BASE64 = re.compile(r"[A-Za-z0-9+/]+")
_WAITS = tuple(
    timedelta(seconds=seconds) for seconds in (5, 30, 2 * 60, 10 * 60, 30 * 60, 2 * 3600, 6 * 3600)
)
_JITTER = 0.2
_LONGEST_WAIT = timedelta(hours=24)
_GONE = 410


@dataclass(frozen=True)
class SigningSecretPlace:
    """Where a destination's secrets belong. They open in this place only."""

    session_id: SessionId
    destination_id: DestinationId

    @property
    def associated_data(self) -> bytes:
        return "\0".join(("webhook", self.session_id, self.destination_id)).encode()


@dataclass(frozen=True)
class Attempt:
    """How one sending ended. `code` None: there was no answer."""

    at: datetime
    code: int | None
    error: str | None
    retry_after: float | None = None

    @property
    def delivered(self) -> bool:
        return self.code is not None and 200 <= self.code < 300

    @property
    def forever(self) -> bool:
        return self.code == _GONE


def signing_key(secret: str) -> bytes:
    """The key that verifiers derive from a secret: what it is in base64, otherwise all of it as it is."""
    bare = secret.removeprefix(_PREFIX)
    digits = bare.rstrip("=")
    padding = len(bare) - len(digits)
    if _BASE64.fullmatch(digits) and (padding == 0 or (padding <= 2 and len(bare) % 4 == 0)):
        try:
            key = base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
        except binascii.Error:
            return secret.encode()
        if key and base64.b64encode(key).decode().rstrip("=") == digits:
            return key
    return secret.encode()


def signed_headers(
    delivery: Delivery, secrets: Sequence[str], at: datetime, body: bytes
) -> Mapping[str, str]:
    """The headers of one sending. Receivers know an event by `webhook-id`, however often it is sent."""
    stamp = str(int(at.timestamp()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "OpenComputer-Webhooks",
        "webhook-id": delivery.event_id,
        "webhook-timestamp": stamp,
        "X-OC-Delivery-ID": delivery.id,
        "X-OC-Session-ID": delivery.session_id,
    }
    if secrets:
        signed = f"{delivery.event_id}.{stamp}.".encode() + body
        headers["webhook-signature"] = " ".join(f"v1,{_signature(secret, signed)}" for secret in secrets)
    return headers


def _signature(secret: str, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(signing_key(secret), signed, hashlib.sha256)).decode()


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


def after(delivery: Delivery, attempt: Attempt, chance: float) -> Delivery:
    """What becomes of a delivery that was just attempted. `chance` is a number from 0 to 1."""
    tried = replace(
        delivery,
        attempts=delivery.attempts + 1,
        budget=max(0, delivery.budget - 1),
        last_attempt_at=attempt.at,
        response_code=attempt.code,
        error=attempt.error,
        updated_at=attempt.at,
        due_at=None,
    )
    if attempt.delivered:
        return replace(tried, status=DeliveryStatus.DELIVERED, error=None)
    if attempt.forever or tried.budget == 0:
        return replace(tried, status=DeliveryStatus.DEAD_LETTER)
    wait = _wait(ATTEMPTS - tried.budget, attempt.retry_after, chance)
    return replace(tried, status=DeliveryStatus.FAILED, due_at=attempt.at + wait)


def _wait(attempts: int, retry_after: float | None, chance: float) -> timedelta:
    usual = _WAITS[min(attempts, len(_WAITS)) - 1] * (1 + _JITTER * (2 * chance - 1))
    asked = timedelta(seconds=min(retry_after or 0, _LONGEST_WAIT.total_seconds()))
    return max(usual, asked)


def usable_secrets(destination: Destination, at: datetime) -> Sequence[int]:
    """Which of a destination's secrets still sign, newest first."""
    return [place for place, (_, until) in enumerate(destination.secrets) if until is None or until > at]
