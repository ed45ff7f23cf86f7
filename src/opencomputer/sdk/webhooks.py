"""Where the events of sandboxes' lives are sent: `Webhooks`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from opencomputer.sdk import answers
from opencomputer.sdk.api_client import ApiClient
from opencomputer.sdk.control_plane import Call, get
from opencomputer.sdk.durable.bodies import NOT_GIVEN, NotGiven, given, set_members
from opencomputer.sdk.paths import path_of
from opencomputer.sdk.texts import listed, listed_if_given
from opencomputer.sdk.webhook_records import (
    WebhookAttempt,
    WebhookDestination,
    WebhookMessage,
    WebhookTest,
    attempt_from,
    destination_from,
    message_from,
    tested_from,
)

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.control_plane import ControlPlane


class Webhooks(ApiClient):
    """Destinations of `sandbox.…` events. Check what arrives there with `verify_webhook`.

    The events are `sandbox.created`, `.ready`, `.hibernated`, `.resumed`, `.stopped`, `.migrated`,
    `.checkpoint.created`, `.forked`, `.scaled`, `.preview_url.changed`, and `.test` from `test`.
    """

    def __init__(self, api_key: str | None = None, api_url: str | None = None) -> None:
        super().__init__(api_key, api_url)
        self.deliveries: WebhookDeliveries = WebhookDeliveries(self._plane)
        """What was sent to a destination, and how that went."""

    async def create(
        self,
        url: str,
        *,
        name: str | None = None,
        secret: str | None = None,
        event_types: Sequence[str] | None = None,
        sandbox_id: str | None = None,
        enabled: bool | None = None,
        idempotency_key: str | None = None,
    ) -> WebhookDestination:
        """Register an `https` address; the answer has the `secret`, which the server makes if none is given.

        `event_types` are exact or `prefix.*`, all by default; with a `sandbox_id` only that sandbox's events
        are sent. A lost answer makes no second destination: the request carries an idempotency key, yours or
        one of its own. Raises `ValidationError` for an address or type that is not allowed, and
        `ConflictError` when the key was used for something else.
        """
        body = set_members(
            url=url,
            name=name,
            secret=secret,
            eventTypes=listed_if_given(event_types, "event_types"),
            sandboxId=sandbox_id,
            enabled=enabled,
        )
        headers = {"Idempotency-Key": idempotency_key or secrets.token_hex(16)}
        call = Call("POST", _path(), repeatable=True, json=body, headers=headers)
        return destination_from(await self._object(call))

    async def list(self) -> list[WebhookDestination]:
        """All of them, without their secrets."""
        return [destination_from(each) for each in _data(await self._plane.json(get(_path())))]

    async def get(self, webhook_id: str) -> WebhookDestination:
        """One of them, without its secret. Raises `NotFoundError`."""
        return destination_from(await self._object(get(_path(webhook_id))))

    async def get_secret(self, webhook_id: str) -> str:
        """The secret with which its deliveries are signed now."""
        return answers.required_text(await self._object(get(_path(webhook_id, "secret"))), "secret")

    async def update(
        self,
        webhook_id: str,
        *,
        url: str | NotGiven = NOT_GIVEN,
        event_types: Sequence[str] | NotGiven | None = NOT_GIVEN,
        enabled: bool | NotGiven = NOT_GIVEN,
        rotate_secret: bool = False,
        name: str | NotGiven = NOT_GIVEN,
    ) -> WebhookDestination:
        """Change what is given; `event_types=None` lets all events through.

        With `rotate_secret` the answer has a new `secret`; the old one signs too for a day.
        """
        if event_types is not None and not isinstance(event_types, NotGiven):
            event_types = listed(event_types, "event_types")
        body = given(url=url, eventTypes=event_types, enabled=enabled, name=name)
        if rotate_secret:
            body["rotateSecret"] = True
        # Rotating twice would make the secret of a lost answer the old one already.
        call = Call("PATCH", _path(webhook_id), repeatable=not rotate_secret, json=body)
        return destination_from(await self._object(call))

    async def delete(self, webhook_id: str) -> None:
        """Send nothing there any more. Raises `NotFoundError`."""
        await self._plane.send(Call("DELETE", _path(webhook_id)))

    async def test(self, webhook_id: str) -> WebhookTest:
        """Send a `sandbox.test` event; its `message_id` is found under `deliveries`."""
        return tested_from(await self._object(Call("POST", _path(webhook_id, "test"))))


class WebhookDeliveries:
    """Each sending of an event to a destination."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    async def list(self, webhook_id: str) -> list[WebhookAttempt]:
        """The last 50, newest first."""
        return [
            attempt_from(each) for each in _data(await self._plane.json(get(_path(webhook_id, "deliveries"))))
        ]

    async def get(self, webhook_id: str, delivery_id: str) -> WebhookMessage:
        """What was sent. Raises `NotFoundError`."""
        path = _path(webhook_id, "deliveries", delivery_id)
        return message_from(answers.json_object(await self._plane.json(get(path))))

    async def redeliver(self, webhook_id: str, delivery_id: str) -> None:
        """Send it once more, under the same id, however it went."""
        await self._plane.send(Call("POST", _path(webhook_id, "deliveries", delivery_id, "redeliver")))


def _path(*parts: str) -> str:
    return path_of("webhooks", *parts)


def _data(answer: object) -> list[JsonObject]:
    """A list, wrapped as `data` or bare."""
    if answers.is_json_object(answer):
        answer = answer.get("data")
    return answers.json_objects(answer)
