"""Where a session's events are sent, and how that went."""

from __future__ import annotations

from collections.abc import Sequence

from opencomputer.sdk.durable.bodies import NOT_GIVEN, NotGiven, given, set_members
from opencomputer.sdk.durable.connection import Connection, Request, reading
from opencomputer.sdk.durable.records import Page, page_of
from opencomputer.sdk.durable.session_records import Delivery, Destination
from opencomputer.sdk.paths import path_of
from opencomputer.sdk.texts import listed, listed_if_given


class Destinations:
    """The webhooks of one session. Each gets what happens after it was registered."""

    def __init__(self, connection: Connection, session_id: str) -> None:
        self._connection = connection
        self._session_id = session_id

    async def create(
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
        body = set_members(
            url=url,
            secret=secret,
            level=level,
            types=listed_if_given(types, "types"),
            include_raw=include_raw,
            enabled=enabled,
        )
        return Destination.read(await self._connection.object(Request("POST", self._path(), json=body)))

    async def list(self) -> Page[Destination]:
        """Oldest first."""
        answer = await self._connection.json(reading(self._path()))
        return page_of(answer, Destination.read)

    async def get(self, destination: str) -> Destination:
        """One of them. Raises `NotFoundError`."""
        return Destination.read(await self._connection.object(reading(self._path(destination))))

    async def update(
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
        over a day, in which both sign."""
        if types is not None and not isinstance(types, NotGiven):
            types = listed(types, "types")
        body = given(
            url=url, secret=secret, level=level, types=types, include_raw=include_raw, enabled=enabled
        )
        request = Request("PATCH", self._path(destination), json=body)
        return Destination.read(await self._connection.object(request))

    async def delete(self, destination: str) -> None:
        """Send nothing there any more."""
        await self._connection.send(Request("DELETE", self._path(destination)))

    def _path(self, *parts: str) -> str:
        return path_of("sessions", self._session_id, "destinations", *parts)


class Deliveries:
    """Each sending of an event to a destination."""

    def __init__(self, connection: Connection, session_id: str) -> None:
        self._connection = connection
        self._session_id = session_id

    async def list(
        self,
        *,
        destination: str | None = None,
        status: str | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Page[Delivery]:
        """Newest first."""
        request = reading(self._path(), destination=destination, status=status, after=after, limit=limit)
        answer = await self._connection.json(request)
        return page_of(
            answer,
            Delivery.read,
            lambda cursor: self.list(destination=destination, status=status, after=cursor, limit=limit),
        )

    async def get(self, delivery: str) -> Delivery:
        """One of them. Raises `NotFoundError`."""
        return Delivery.read(await self._connection.object(reading(self._path(delivery))))

    async def redeliver(self, delivery: str) -> Delivery:
        """Send it once more, however it went."""
        request = Request("POST", self._path(delivery, "redeliver"))
        return Delivery.read(await self._connection.object(request))

    def _path(self, *parts: str) -> str:
        return path_of("sessions", self._session_id, "deliveries", *parts)
