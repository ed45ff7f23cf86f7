# Generated from src/opencomputer/sdk/durable/client_session.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.durable.client_session`; see there."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opencomputer.blocking.support.page import Page
from opencomputer.blocking.support.stream import Stream
from opencomputer.blocking.support.twin import Twin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opencomputer.sdk.durable import client_session as sdk
    from opencomputer.sdk.durable.events import SessionEvent
    from opencomputer.sdk.durable.session_records import Accepted


class ClientSession(Twin):
    """Reads one session's log and appends to it; a client token permits just that.

    Close what `connect_session` gave, or use it as a context manager.
    """

    @property
    def id(self) -> str:
        """The session's id."""
        return self._original.id

    def events(
        self, *, level: str = "internal", type: str | None = None, after: int = 0, reconnect: bool = True
    ) -> Stream[SessionEvent]:
        """The events after a position, old ones first and then as they happen, without end.

        Each comes once and in order, also when the connection is lost in between. `level` is user, progress
        or internal (all); `type` exact or `prefix.*`. Leave the loop to stop. Without `reconnect` it ends
        with the connection.
        """
        return Stream(self._original.events(level=level, type=type, after=after, reconnect=reconnect))

    def list_events(
        self,
        *,
        after: int = 0,
        level: str | None = None,
        type: str | None = None,
        turn_id: str | None = None,
        limit: int | None = None,
    ) -> Page[SessionEvent]:
        """The events that there are after a position, in order."""
        return Page(
            self._run(
                self._original.list_events(after=after, level=level, type=type, turn_id=turn_id, limit=limit)
            )
        )

    def event(self, event_id: str) -> SessionEvent:
        """One of them. Raises `NotFoundError`."""
        return self._run(self._original.event(event_id))

    def event_content(self, event_id: str) -> str:
        """All of what was too long for an event's body, as text."""
        return self._run(self._original.event_content(event_id))

    def messages(self, *, after: int = 0, limit: int | None = None) -> Page[SessionEvent]:
        """What was said, by people and by the agent, in order."""
        return Page(self._run(self._original.messages(after=after, limit=limit)))

    def steer(self, text: str, *, idempotency_key: str | None = None) -> Accepted:
        """Say something to the agent: at once if it rests, else for its next turn.

        It is in the log when this returns. Saying it twice with one key says it once.
        """
        return self._run(self._original.steer(text, idempotency_key=idempotency_key))

    def steer_envelope(
        self, envelope: Mapping[str, object], *, idempotency_key: str | None = None
    ) -> Accepted:
        """The same with what a channel knows of a message: `text`, `raw`, `id`, `source`, `refs`, …"""
        return self._run(self._original.steer_envelope(envelope, idempotency_key=idempotency_key))

    def aclose(self) -> None:
        """Close the connection."""
        self._run(self._original.aclose())

    def __enter__(self) -> ClientSession:
        return self._self_or(ClientSession, self._run(self._original.__aenter__()))

    def __exit__(self, *_: object) -> None:
        self._run(self._original.__aexit__(*_))

    @property
    def _original(self) -> sdk.ClientSession:
        return cast("sdk.ClientSession", self._wrapped)
