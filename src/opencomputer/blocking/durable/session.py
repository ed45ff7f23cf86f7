# Generated from src/opencomputer/sdk/durable/session.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.durable.session`; see there."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

from opencomputer.blocking.durable.client_session import ClientSession
from opencomputer.blocking.durable.watches import Watches
from opencomputer.blocking.durable.webhooks_of_session import Deliveries, Destinations
from opencomputer.blocking.support.page import Page
from opencomputer.blocking.support.twin import view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opencomputer.sdk.answers import Described
    from opencomputer.sdk.durable import session as sdk
    from opencomputer.sdk.durable.session_records import (
        SessionData,
        SessionResult,
        SessionSource,
        Turn,
        Usage,
    )


class Session(ClientSession):
    """A durable session. `data` is what the server said last; `refresh` asks again."""

    @property
    def data(self) -> SessionData:
        return self._original.data

    @property
    def client_token(self) -> str | None:
        """For a browser, say: reads and steers this session for a while. Only from creating and forking."""
        return self._original.client_token

    @property
    def sources(self) -> Sequence[SessionSource]:
        """Its repositories, as they stood when it was created or they were listed last."""
        return self._original.sources

    @cached_property
    def watches(self) -> Watches:
        return view(Watches, self._original.watches)

    @cached_property
    def destinations(self) -> Destinations:
        return view(Destinations, self._original.destinations)

    @cached_property
    def deliveries(self) -> Deliveries:
        return view(Deliveries, self._original.deliveries)

    def aclose(self) -> None:
        """Nothing: the connection is that of the `OpenComputer` that gave this session, and ends with it."""
        self._run(self._original.aclose())

    @property
    def status(self) -> str:
        """queued, running, awaiting_input, idle, failed or archived."""
        return self._original.status

    @property
    def last_turn(self) -> Turn | None:
        return self._original.last_turn

    @property
    def usage(self) -> Usage | None:
        return self._original.usage

    @property
    def metadata(self) -> Described | None:
        return self._original.metadata

    @property
    def snapshot(self) -> Described | None:
        """What of its agent the session keeps, whatever becomes of that."""
        return self._original.snapshot

    def refresh(self) -> Session:
        """Ask how it stands now."""
        return self._self_or(Session, self._run(self._original.refresh()))

    def turns(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Turn]:
        """Newest first."""
        return Page(self._run(self._original.turns(limit=limit, cursor=cursor)))

    def turn(self, turn_id: str) -> Turn:
        """One of them. Raises `NotFoundError`."""
        return self._run(self._original.turn(turn_id))

    def result(self) -> SessionResult:
        """The newest turn, and what the agent had to say at its end."""
        return self._run(self._original.result())

    def list_sources(self) -> Sequence[SessionSource]:
        """How its repositories stand now."""
        return self._run(self._original.list_sources())

    def wait(self, *, timeout: float | None = None) -> SessionResult:
        """Wait until there is nothing to do for it, or it asks something. Raises TimeoutError."""
        return self._run(self._original.wait(timeout=timeout))

    def cancel(self) -> Session:
        """Ask the turn that runs to stop. What was said since then is worked on afterwards."""
        return self._self_or(Session, self._run(self._original.cancel()))

    def archive(self) -> Session:
        """Close it for writing. It can be read for ever."""
        return self._self_or(Session, self._run(self._original.archive()))

    def rewind(self, turn: str) -> Session:
        """Bring back files, processes and transcript of the end of a turn; the log goes on.

        Raises `ConflictError` while a turn runs, and when nothing of that turn is kept.
        """
        return self._self_or(Session, self._run(self._original.rewind(turn)))

    def fork(self, turn: str | None = None, *, idempotency_key: str | None = None) -> Session:
        """A new session that goes on from the end of a turn of this one, by default the newest that is kept.

        It waits to be told something. Raises `ConflictError` when nothing of that turn is kept.
        """
        return self._self_or(Session, self._run(self._original.fork(turn, idempotency_key=idempotency_key)))

    def mint_client_token(
        self, scopes: Sequence[str] = ("read", "steer"), *, ttl_seconds: int | None = None
    ) -> str:
        """A token for this session alone, for one hour by default."""
        return self._run(self._original.mint_client_token(scopes, ttl_seconds=ttl_seconds))

    @property
    def _original(self) -> sdk.Session:
        return cast("sdk.Session", self._wrapped)
