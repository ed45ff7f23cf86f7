"""Destinations of webhooks and what was sent to them, as the server describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opencomputer.sdk import answers

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject


@dataclass(frozen=True)
class WebhookDestination:
    """Where events are sent. No `event_types` are all; without a `sandbox_id` it is for all sandboxes.

    `secret` is only in the answer that made or rotated it; otherwise `Webhooks.get_secret` tells it.
    """

    id: str
    name: str | None
    url: str
    event_types: list[str]
    sandbox_id: str | None
    enabled: bool
    has_secret: bool
    created_at: str
    updated_at: str
    secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class WebhookAttempt:
    """One sending of the message `id`: `status` is "success", "pending" or "failed"."""

    id: str
    status: str
    response_status_code: int | None = None
    timestamp: str | None = None
    attempt_id: str | None = None


@dataclass(frozen=True)
class WebhookMessage:
    """What was sent: `payload` is the body."""

    id: str
    event_type: str | None = None
    event_id: str | None = None
    payload: object = None
    timestamp: str | None = None


@dataclass(frozen=True)
class WebhookTest:
    """A test event that was accepted for sending."""

    ok: bool
    event_type: str | None = None
    message_id: str | None = None


def destination_from(answer: JsonObject) -> WebhookDestination:
    """The destination that an answer describes."""
    return WebhookDestination(
        id=answers.required_text(answer, "id"),
        name=answers.text(answer, "name") or None,
        url=answers.text(answer, "url"),
        event_types=answers.texts(answer, "eventTypes"),
        sandbox_id=answers.text(answer, "sandboxId") or None,
        enabled=answers.flag(answer, "enabled"),
        has_secret=answers.flag(answer, "hasSecret"),
        created_at=answers.text(answer, "createdAt"),
        updated_at=answers.text(answer, "updatedAt"),
        secret=answers.text(answer, "secret") or None,
    )


def attempt_from(answer: JsonObject) -> WebhookAttempt:
    """The sending that an answer describes."""
    return WebhookAttempt(
        id=answers.required_text(answer, "id"),
        status=answers.text(answer, "status"),
        response_status_code=answers.whole(answer, "responseStatusCode"),
        timestamp=answers.text(answer, "timestamp") or None,
        attempt_id=answers.text(answer, "attemptId") or None,
    )


def message_from(answer: JsonObject) -> WebhookMessage:
    """The message that an answer describes."""
    return WebhookMessage(
        id=answers.required_text(answer, "id"),
        event_type=answers.text(answer, "eventType") or None,
        event_id=answers.text(answer, "eventId") or None,
        payload=answer.get("payload"),
        timestamp=answers.text(answer, "timestamp") or None,
    )


def tested_from(answer: JsonObject) -> WebhookTest:
    """The answer to a test."""
    return WebhookTest(
        ok=answers.flag(answer, "ok"),
        event_type=answers.text(answer, "eventType") or None,
        message_id=answers.text(answer, "messageId") or None,
    )
