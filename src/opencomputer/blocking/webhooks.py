# Generated from src/opencomputer/sdk/webhooks.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.webhooks`; see there."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

from opencomputer.blocking.api_client import ApiClient
from opencomputer.blocking.support.twin import Twin, view
from opencomputer.sdk import webhooks as sdk
from opencomputer.sdk.durable.bodies import NOT_GIVEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opencomputer.sdk.durable.bodies import NotGiven
    from opencomputer.sdk.webhook_records import (
        WebhookAttempt,
        WebhookDestination,
        WebhookMessage,
        WebhookTest,
    )


class Webhooks(ApiClient):
    """Destinations of `sandbox.…` events. Check what arrives there with `verify_webhook`.

    The events are `sandbox.created`, `.ready`, `.hibernated`, `.resumed`, `.stopped`, `.migrated`,
    `.checkpoint.created`, `.forked`, `.scaled`, `.preview_url.changed`, and `.test` from `test`.
    """

    def __init__(self, api_key: str | None = None, api_url: str | None = None) -> None:
        Twin.__init__(self, sdk.Webhooks(api_key, api_url))

    @cached_property
    def deliveries(self) -> WebhookDeliveries:
        """What was sent to a destination, and how that went."""
        return view(WebhookDeliveries, self._original.deliveries)

    def create(
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
        return self._run(
            self._original.create(
                url,
                name=name,
                secret=secret,
                event_types=event_types,
                sandbox_id=sandbox_id,
                enabled=enabled,
                idempotency_key=idempotency_key,
            )
        )

    def list(self) -> list[WebhookDestination]:
        """All of them, without their secrets."""
        return self._run(self._original.list())

    def get(self, webhook_id: str) -> WebhookDestination:
        """One of them, without its secret. Raises `NotFoundError`."""
        return self._run(self._original.get(webhook_id))

    def get_secret(self, webhook_id: str) -> str:
        """The secret with which its deliveries are signed now."""
        return self._run(self._original.get_secret(webhook_id))

    def update(
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
        return self._run(
            self._original.update(
                webhook_id,
                url=url,
                event_types=event_types,
                enabled=enabled,
                rotate_secret=rotate_secret,
                name=name,
            )
        )

    def delete(self, webhook_id: str) -> None:
        """Send nothing there any more. Raises `NotFoundError`."""
        self._run(self._original.delete(webhook_id))

    def test(self, webhook_id: str) -> WebhookTest:
        """Send a `sandbox.test` event; its `message_id` is found under `deliveries`."""
        return self._run(self._original.test(webhook_id))

    @property
    def _original(self) -> sdk.Webhooks:
        return cast("sdk.Webhooks", self._wrapped)


class WebhookDeliveries(Twin):
    """Each sending of an event to a destination."""

    def list(self, webhook_id: str) -> list[WebhookAttempt]:
        """The last 50, newest first."""
        return self._run(self._original.list(webhook_id))

    def get(self, webhook_id: str, delivery_id: str) -> WebhookMessage:
        """What was sent. Raises `NotFoundError`."""
        return self._run(self._original.get(webhook_id, delivery_id))

    def redeliver(self, webhook_id: str, delivery_id: str) -> None:
        """Send it once more, under the same id, however it went."""
        self._run(self._original.redeliver(webhook_id, delivery_id))

    @property
    def _original(self) -> sdk.WebhookDeliveries:
        return cast("sdk.WebhookDeliveries", self._wrapped)
