"""Checking that a webhook comes from the server, and reading it (the Standard Webhooks scheme)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from opencomputer.sdk import answers
from opencomputer.sdk.answers import Described
from opencomputer.sdk.durable.events import SessionEvent, read_event
from opencomputer.sdk.errors import UnexpectedAnswerError

DEFAULT_TOLERANCE_SECONDS = 300
_SECRET_PREFIX = "whsec_"
_STANDARD_BASE64 = re.compile(r"[A-Za-z0-9+/]+")

Pairs = Iterable[tuple[str, str]] | Iterable[tuple[bytes, bytes]]


class HasItems(Protocol):
    """Headers of a request as frameworks have them, be they a mapping or not."""

    def items(self) -> Iterable[tuple[str, str]]:
        """Names and values."""
        ...


Headers = HasItems | Pairs


class WebhookVerificationError(ValueError):
    """The request is not a webhook that was signed with this secret just now."""


@dataclass(frozen=True, kw_only=True)
class WebhookDelivery:
    """A verified webhook. Do nothing twice for one `dedupe_id`: deliveries are repeated until one succeeds.

    `event` is the session's event; webhooks of sandboxes have `sandbox_id` and what was sent in `raw`.
    """

    type: str
    dedupe_id: str
    event_id: str | None = None
    delivery_id: str | None = None
    session_id: str | None = None
    sandbox_id: str | None = None
    metadata: Described | None = None
    event: SessionEvent | None = None
    raw: Described = field(default_factory=dict[str, object], repr=False)


def verify_webhook(
    raw_body: bytes | str,
    headers: Headers,
    secret: str,
    *,
    tolerance_seconds: float = DEFAULT_TOLERANCE_SECONDS,
    now_seconds: float | None = None,
) -> WebhookDelivery:
    """The webhook that a request carries, once its signature and its time have been checked.

    `raw_body` must be the body exactly as it arrived. `headers` are the request's, in whatever case. Raises
    `WebhookVerificationError`.
    """
    if not secret.removeprefix(_SECRET_PREFIX):
        raise WebhookVerificationError("there is no secret to check with")
    body = raw_body.encode() if isinstance(raw_body, str) else raw_body
    given = _by_lower_name(headers)
    # Those of sandboxes come under both families of names. Only one set counts, as in other SDKs: svix.
    dialect = "svix" if "svix-id" in given else "webhook"
    id, stamp, signatures = (given.get(f"{dialect}-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (id and stamp and signatures):
        raise WebhookVerificationError("the headers webhook-id, -timestamp and -signature must all be there")
    _check_time(stamp, time.time() if now_seconds is None else now_seconds, tolerance_seconds)
    expected = _signature(secret, f"{id}.{stamp}.".encode() + body)
    if not any(_is_signature(one, expected) for one in signatures.split(" ")):
        raise WebhookVerificationError("no signature matches")
    delivery = _delivery(body, id, given.get("x-oc-delivery-id"))
    return delivery if dialect == "webhook" else replace(delivery, delivery_id=id, dedupe_id=id)


def key_of(secret: str) -> bytes:
    """The key that a secret stands for: base64 after `whsec_`, and otherwise the whole secret as it is."""
    rest = secret.removeprefix(_SECRET_PREFIX)
    unpadded = re.sub("={1,2}$", "", rest) if len(rest) % 4 == 0 else rest
    if not _STANDARD_BASE64.fullmatch(unpadded):
        return secret.encode()
    try:
        decoded = base64.b64decode(unpadded + "=" * (-len(unpadded) % 4))
    except binascii.Error:
        return secret.encode()
    is_exact = base64.b64encode(decoded).rstrip(b"=") == unpadded.encode()
    return decoded if decoded and is_exact else secret.encode()


def _by_lower_name(headers: Headers) -> dict[str, str]:
    found: dict[str, str] = {}
    # The standard library's headers have items and are no mapping; those of ASGI are pairs of bytes.
    items = getattr(headers, "items", None)
    for pair in cast("Pairs", headers if items is None else items()):
        name, value = (part.decode("latin-1") if isinstance(part, bytes) else part for part in pair)
        found.setdefault(name.lower(), value)
    return found


def _check_time(stamp: str, now: float, tolerance: float) -> None:
    if not re.fullmatch(r"[0-9]{1,15}", stamp):
        raise WebhookVerificationError("the webhook-timestamp is no whole number of seconds")
    if abs(now - int(stamp)) > tolerance:
        raise WebhookVerificationError("the webhook-timestamp is too far from now")


def _signature(secret: str, signed: bytes) -> bytes:
    return base64.b64encode(hmac.digest(key_of(secret), signed, hashlib.sha256))


def _is_signature(given: str, expected: bytes) -> bool:
    version, _, signature = given.partition(",")
    return version == "v1" and hmac.compare_digest(signature.encode(), expected)


def _delivery(body: bytes, id: str, delivery_id: str | None) -> WebhookDelivery:
    try:
        sent = answers.json_object(json.loads(body))
        event = sent.get("event")
        is_of_session = answers.is_json_object(event) and "seq" in event
        metadata = sent.get("metadata")
        event_id = answers.text(sent, "eventId") or None
        return WebhookDelivery(
            type=answers.text(sent, "type"),
            dedupe_id=event_id or id,
            event_id=event_id,
            delivery_id=delivery_id,
            session_id=answers.text(sent, "sessionId") or None,
            sandbox_id=answers.text(sent, "sandboxId") or answers.text(sent, "sandboxID") or None,
            metadata=metadata if answers.is_json_object(metadata) else None,
            event=read_event(event) if is_of_session else None,
            raw=sent,
        )
    except (ValueError, UnexpectedAnswerError) as error:
        raise WebhookVerificationError("the signature is right, but the body is no webhook") from error
