"""One session as whoever holds a client token sees it: its events, and saying something to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from opencomputer.sdk import answers
from opencomputer.sdk.answers import JsonObject
from opencomputer.sdk.durable.bodies import new_key
from opencomputer.sdk.durable.connection import Connection, Request, reading
from opencomputer.sdk.durable.events import SessionEvent, read_event
from opencomputer.sdk.durable.records import Page, number, page_of
from opencomputer.sdk.durable.session_records import Accepted
from opencomputer.sdk.durable.streams import Following, follow
from opencomputer.sdk.errors import UnexpectedAnswerError
from opencomputer.sdk.paths import path_of


class ClientSession:
    """Reads one session's log and appends to it; a client token permits just that.

    Close what `connect_session` gave, or use it as a context manager.
    """

    def __init__(self, connection: Connection, session_id: str) -> None:
        self._connection = connection
        self._id = session_id

    @property
    def id(self) -> str:
        """The session's id."""
        return self._id

    def events(
        self,
        *,
        level: str = "internal",
        type: str | None = None,
        after: int = 0,
        reconnect: bool = True,
    ) -> AsyncGenerator[SessionEvent]:
        """The events after a position, old ones first and then as they happen, without end.

        Each comes once and in order, also when the connection is lost in between. `level` is user, progress
        or internal (all); `type` exact or `prefix.*`. Leave the loop to stop. Without `reconnect` it ends
        with the connection.
        """
        path = self._path("events")
        return follow(self._connection, Following(path, level, type, after, reconnect))

    async def list_events(
        self,
        *,
        after: int = 0,
        level: str | None = None,
        type: str | None = None,
        turn_id: str | None = None,
        limit: int | None = None,
    ) -> Page[SessionEvent]:
        """The events that there are after a position, in order."""
        filters = {"level": level, "type": type, "turn_id": turn_id, "limit": limit}

        async def page(start: int) -> Page[SessionEvent]:
            answer = await self._object("events", after=start, **filters)
            return page_of(answer, read_event, lambda cursor: page(int(cursor)))

        return await page(after)

    async def event(self, event_id: str) -> SessionEvent:
        """One of them. Raises `NotFoundError`."""
        return read_event(await self._object("events", event_id))

    async def event_content(self, event_id: str) -> str:
        """All of what was too long for an event's body, as text."""
        response = await self._connection.send(reading(self._path("events", event_id, "content")))
        return response.content.decode("utf-8", errors="replace")

    async def messages(self, *, after: int = 0, limit: int | None = None) -> Page[SessionEvent]:
        """What was said, by people and by the agent, in order."""

        async def page(start: int) -> Page[SessionEvent]:
            answer = await self._object("messages", after=start, limit=limit)
            return page_of(answer, read_event, lambda cursor: page(int(cursor)))

        return await page(after)

    async def steer(self, text: str, *, idempotency_key: str | None = None) -> Accepted:
        """Say something to the agent: at once if it rests, else for its next turn.

        It is in the log when this returns. Saying it twice with one key says it once.
        """
        return await self._said({"text": text, "idempotency_key": idempotency_key or new_key()})

    async def steer_envelope(
        self, envelope: Mapping[str, object], *, idempotency_key: str | None = None
    ) -> Accepted:
        """The same with what a channel knows of a message: `text`, `raw`, `id`, `source`, `refs`, …"""
        key = idempotency_key or answers.text(dict(envelope), "id") or new_key()
        return await self._said({"envelope": envelope, "idempotency_key": key})

    async def aclose(self) -> None:
        """Close the connection."""
        await self._connection.aclose()

    async def __aenter__(self) -> ClientSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _said(self, body: JsonObject) -> Accepted:
        request = Request("POST", self._path("messages"), repeatable=True, json=body)
        event = answers.json_object((await self._connection.object(request)).get("event"))
        seq = number("seq", event.get("seq"))
        if not isinstance(seq, int):
            raise UnexpectedAnswerError("the server accepted a message without saying where it is")
        return Accepted(answers.required_text(event, "id"), seq)

    async def _object(self, *parts: str, **params: str | int | bool | None) -> JsonObject:
        return await self._connection.object(reading(self._path(*parts), **params))

    def _path(self, *parts: str) -> str:
        return path_of("sessions", self._id, *parts)
