# Generated from src/opencomputer/sdk/durable/webhooks_of_session.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.durable.webhooks_of_session`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.page import Page
from opencomputer.blocking.support.twin import Twin
from opencomputer.sdk.durable.bodies import NOT_GIVEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opencomputer.sdk.durable import webhooks_of_session as sdk
    from opencomputer.sdk.durable.bodies import NotGiven
    from opencomputer.sdk.durable.session_records import Delivery, Destination


class Destinations(Twin):
    """The webhooks of one session. Each gets what happens after it was registered."""

    def create(
        self,
        url: str,
        *,
        secret: str | None = None,
        level: str | None = None,
        types: Sequence[str] | None = None,
        include_raw: bool | None = None,
        enabled: bool | None = None,
    ) -> Destination:
        """Register a URL. With a `secret` deliveries are signed; `level` is user by default.

        `types` are exact or `prefix.*`. Raises `ValidationError` for a URL that must not be called.
        """
        return self._run(
            self._original.create(
                url, secret=secret, level=level, types=types, include_raw=include_raw, enabled=enabled
            )
        )

    def list(self) -> Page[Destination]:
        """Oldest first."""
        return Page(self._run(self._original.list()))

    def get(self, destination: str) -> Destination:
        """One of them. Raises `NotFoundError`."""
        return self._run(self._original.get(destination))

    def update(
        self,
        destination: str,
        *,
        url: str | NotGiven = NOT_GIVEN,
        secret: str | NotGiven | None = NOT_GIVEN,
        level: str | NotGiven = NOT_GIVEN,
        types: Sequence[str] | NotGiven | None = NOT_GIVEN,
        include_raw: bool | NotGiven = NOT_GIVEN,
        enabled: bool | NotGiven = NOT_GIVEN,
    ) -> Destination:
        """Change what is given. `types=None` lets all types through; a new `secret` replaces the old one
        over a day, in which both sign.
        """
        return self._run(
            self._original.update(
                destination,
                url=url,
                secret=secret,
                level=level,
                types=types,
                include_raw=include_raw,
                enabled=enabled,
            )
        )

    def delete(self, destination: str) -> None:
        """Send nothing there any more."""
        self._run(self._original.delete(destination))

    @property
    def _original(self) -> sdk.Destinations:
        return cast("sdk.Destinations", self._wrapped)


class Deliveries(Twin):
    """Each sending of an event to a destination."""

    def list(
        self,
        *,
        destination: str | None = None,
        status: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Page[Delivery]:
        """Newest first."""
        return Page(
            self._run(self._original.list(destination=destination, status=status, after=after, limit=limit))
        )

    def get(self, delivery: str) -> Delivery:
        """One of them. Raises `NotFoundError`."""
        return self._run(self._original.get(delivery))

    def redeliver(self, delivery: str) -> Delivery:
        """Send it once more, however it went."""
        return self._run(self._original.redeliver(delivery))

    @property
    def _original(self) -> sdk.Deliveries:
        return cast("sdk.Deliveries", self._wrapped)
