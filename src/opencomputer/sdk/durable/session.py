"""One session as its organisation sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from opencomputer.sdk import answers
from opencomputer.sdk.answers import Described, JsonObject
from opencomputer.sdk.durable.bodies import new_key, set_members
from opencomputer.sdk.durable.client_session import ClientSession
from opencomputer.sdk.durable.connection import Connection, Request, reading
from opencomputer.sdk.durable.events import read_event
from opencomputer.sdk.durable.records import Page, inner, page_of
from opencomputer.sdk.durable.session_records import (
    BUSY_STATUSES,
    SessionData,
    SessionResult,
    SessionSource,
    Turn,
    Usage,
)
from opencomputer.sdk.durable.watches import Watches
from opencomputer.sdk.durable.webhooks_of_session import Deliveries, Destinations
from opencomputer.sdk.paths import path_of
from opencomputer.sdk.texts import listed


class Session(ClientSession):
    """A durable session. `data` is what the server said last; `refresh` asks again."""

    def __init__(
        self,
        connection: Connection,
        data: SessionData,
        *,
        client_token: str | None = None,
        sources: Sequence[SessionSource] = (),
    ) -> None:
        super().__init__(connection, data.id)
        self.data = data
        self.client_token = client_token
        """For a browser, say: reads and steers this session for a while. Only from creating and forking."""
        self.sources: Sequence[SessionSource] = sources
        """Its repositories, as they stood when it was created or they were listed last."""
        self.watches = Watches(connection, data.id)
        self.destinations = Destinations(connection, data.id)
        self.deliveries = Deliveries(connection, data.id)

    async def aclose(self) -> None:
        """Nothing: the connection is that of the `OpenComputer` that gave this session, and ends with it."""

    @property
    def status(self) -> str:
        """queued, running, awaiting_input, idle, failed or archived."""
        return self.data.status

    @property
    def last_turn(self) -> Turn | None:
        return self.data.last_turn

    @property
    def usage(self) -> Usage | None:
        return self.data.usage

    @property
    def metadata(self) -> Described | None:
        return self.data.metadata

    @property
    def snapshot(self) -> Described | None:
        """What of its agent the session keeps, whatever becomes of that."""
        return self.data.agent_snapshot

    async def refresh(self) -> Session:
        """Ask how it stands now."""
        self.data = SessionData.read(inner(await self._object(), "session"))
        return self

    async def turns(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Turn]:
        """Newest first."""
        answer = await self._object("turns", limit=limit, cursor=cursor)
        return page_of(answer, Turn.read, lambda after: self.turns(limit=limit, cursor=after))

    async def turn(self, turn_id: str) -> Turn:
        """One of them. Raises `NotFoundError`."""
        return Turn.read(await self._object("turns", turn_id))

    async def result(self) -> SessionResult:
        """The newest turn, and what the agent had to say at its end."""
        answer = await self._object("result")
        turn, event = answer.get("last_turn"), answer.get("result")
        return SessionResult(
            last_turn=Turn.read(turn) if turn is not None else None,
            result=read_event(event) if event is not None else None,
        )

    async def list_sources(self) -> Sequence[SessionSource]:
        """How its repositories stand now."""
        answer = await self._connection.json(reading(path_of("sessions", self.id, "sources")))
        self.sources = page_of(answer, SessionSource.read).data
        return self.sources

    async def wait(self, *, timeout: float | None = None) -> SessionResult:
        """Wait until there is nothing to do for it, or it asks something. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            await self.refresh()
            if self.status in BUSY_STATUSES:
                # Whatever ends its work is seen by everybody: the end of a turn, or what went wrong.
                events = self.events(level="user", after=self.data.head)
                try:
                    async for event in events:
                        if event.type == "turn.completed" or event.type.startswith("error."):
                            await self.refresh()
                        if self.status not in BUSY_STATUSES:
                            break
                finally:
                    await events.aclose()
            return await self.result()

    async def cancel(self) -> Session:
        """Ask the turn that runs to stop. What was said since then is worked on afterwards."""
        await self._post("cancel")
        return await self.refresh()

    async def archive(self) -> Session:
        """Close it for writing. It can be read for ever."""
        await self._post("archive")
        return await self.refresh()

    async def rewind(self, turn: str) -> Session:
        """Bring back files, processes and transcript of the end of a turn; the log goes on.

        Raises `ConflictError` while a turn runs, and when nothing of that turn is kept.
        """
        await self._post("rewind", {"turn": turn})
        return await self.refresh()

    async def fork(self, turn: str | None = None, *, idempotency_key: str | None = None) -> Session:
        """A new session that goes on from the end of a turn of this one, by default the newest that is kept.

        It waits to be told something. Raises `ConflictError` when nothing of that turn is kept.
        """
        request = Request(
            "POST",
            path_of("sessions", self.id, "fork"),
            repeatable=True,
            json=set_members(turn=turn),
            headers={"Idempotency-Key": idempotency_key or new_key()},
        )
        answer = await self._connection.object(request)
        data = SessionData.read(inner(answer, "session"))
        token = answers.text(answer, "client_token") or None
        return Session(self._connection, data, client_token=token)

    async def mint_client_token(
        self, scopes: Sequence[str] = ("read", "steer"), *, ttl_seconds: int | None = None
    ) -> str:
        """A token for this session alone, for one hour by default."""
        answer = await self._post(
            "client-tokens", set_members(scopes=listed(scopes, "scopes"), ttl=ttl_seconds)
        )
        return answers.text(answer, "client_token") or answers.required_text(answer, "token")

    async def _post(self, verb: str, body: JsonObject | None = None) -> JsonObject:
        request = Request("POST", path_of("sessions", self.id, verb), json=body)
        return await self._connection.object(request)
