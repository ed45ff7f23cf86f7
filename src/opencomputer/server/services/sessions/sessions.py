"""Durable sessions as their organisation sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from opencomputer.server.contracts.agents import AgentDirectory
from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.sessions import Admission, Admitted, SessionTables
from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sessions.destinations import MOST_DESTINATIONS, Destination
from opencomputer.server.domain.sessions.errors import DestinationForbidden, LimitReached
from opencomputer.server.domain.sessions.events import Event, Level, NewEvent
from opencomputer.server.domain.sessions.naming import new_destination_id, new_session_id, new_turn_id
from opencomputer.server.domain.sessions.session import (
    PinnedAgent,
    Session,
    SessionFilter,
    SessionLimits,
    SessionStatus,
    Turn,
)
from opencomputer.wire.ids import OrgId, SessionId, TurnId

UrlCheck = Callable[[str], Awaitable[None]]
"""Raises DestinationForbidden when nothing may be sent there."""


@dataclass(frozen=True)
class NewDestination:
    """A webhook that is to be there before the session's first event. `field` names where its URL stood."""

    url: str
    field: str
    level: Level = Level.USER
    types: tuple[str, ...] | None = None
    include_raw: bool = False
    enabled: bool = True


@dataclass(frozen=True)
class NewSession:
    """A session as it was asked for. `request_hash` stands for the whole request."""

    agent: str
    input: NewEvent
    request_hash: str
    model: str | None = None
    revision: int | str | None = None
    key: str | None = None
    idempotency_key: str | None = None
    metadata: Mapping[str, Any] | None = None
    limits: SessionLimits = field(default_factory=SessionLimits)
    destinations: Sequence[NewDestination] = field(default=())


class DurableSessions:
    """Creates sessions and tells about them. Another organisation's session is NotFound."""

    def __init__(
        self, tables: SessionTables, agents: AgentDirectory, clock: Clock, check_url: UrlCheck
    ) -> None:
        self._sessions = tables.sessions
        self._log = tables.log
        self._agents = agents
        self._clock = clock
        self._check_url = check_url

    async def create(self, org_id: OrgId, wanted: NewSession) -> Admitted:
        """Make a session, or give the one that this request made before, whatever became of its agent.

        Raises IdempotencyMismatch, what AgentDirectory.pin does, LimitReached, DestinationForbidden.
        """
        earlier = await self._sessions.replay(
            org_id, wanted.request_hash, key=wanted.key, idempotency_key=wanted.idempotency_key
        )
        if earlier is not None:
            return Admitted(earlier, replayed=True)
        # Everything that may be wrong with the configuration comes after that: an answer stays the same.
        agent = await self._agents.pin(org_id, wanted.agent, revision=wanted.revision, model=wanted.model)
        if len(wanted.destinations) > MOST_DESTINATIONS:
            raise LimitReached(
                f"a session has at most {MOST_DESTINATIONS} destinations", field="destinations"
            )
        for destination in wanted.destinations:
            await self._check(destination)
        return await self._sessions.admit(self._admission(org_id, wanted, agent))

    async def _check(self, destination: NewDestination) -> None:
        try:
            await self._check_url(destination.url)
        except DestinationForbidden as error:
            raise DestinationForbidden(error.message, field=destination.field) from error

    def _admission(self, org_id: OrgId, wanted: NewSession, agent: PinnedAgent) -> Admission:
        now = self._clock.now()
        session = Session(
            id=new_session_id(),
            org_id=org_id,
            agent=agent,
            status=SessionStatus.QUEUED,
            head=0,
            input_cursor=0,
            epoch=0,
            created_at=now,
            updated_at=now,
            limits=wanted.limits,
            key=wanted.key,
            metadata=wanted.metadata,
        )
        return Admission(
            session,
            wanted.input,
            new_turn_id(),
            wanted.request_hash,
            wanted.idempotency_key,
            [_destination(session.id, each, now) for each in wanted.destinations],
        )

    async def find(self, org_id: OrgId, session_id: SessionId) -> Session | None:
        return await self._sessions.get(org_id, session_id)

    async def get(self, org_id: OrgId, session_id: SessionId) -> Session:
        """Raises NotFound."""
        session = await self.find(org_id, session_id)
        if session is None:
            raise NotFound("there is no such session")
        return session

    async def list(
        self, org_id: OrgId, wanted: SessionFilter, limit: int, before: Session | None
    ) -> Sequence[Session]:
        """Newest first; with `before`, those after it in that order."""
        return await self._sessions.list(org_id, wanted, limit=limit, before=before)

    async def result(self, org_id: OrgId, session_id: SessionId) -> tuple[Turn | None, Event | None]:
        """The newest turn, and what it came to, as far as it came to anything."""
        turn = (await self.get(org_id, session_id)).last_turn
        if turn is None or turn.result_event_id is None:
            return turn, None
        return turn, await self._log.event(session_id, turn.result_event_id)

    async def turns(self, session: Session, limit: int, before: Turn | None) -> Sequence[Turn]:
        """Newest first; with `before`, those after it in that order."""
        return await self._sessions.turns(session.id, limit=limit, before=before)

    async def turn(self, session: Session, turn_id: TurnId) -> Turn | None:
        return await self._sessions.turn(session.id, turn_id)

    async def cancel(self, org_id: OrgId, session_id: SessionId) -> Session:
        """Ask the turn that runs to stop. Not an error when none does."""
        await self.get(org_id, session_id)
        return await self._sessions.request_cancel(session_id, self._clock.now())

    async def archive(self, org_id: OrgId, session_id: SessionId) -> Session:
        """Close it for writing, for good. What it has said stays readable. Idempotent."""
        await self.get(org_id, session_id)
        return await self._sessions.archive(session_id, self._clock.now())


def _destination(session_id: SessionId, wanted: NewDestination, now: datetime) -> Destination:
    return Destination(
        id=new_destination_id(),
        session_id=session_id,
        url=wanted.url,
        level=wanted.level,
        types=wanted.types or None,
        include_raw=wanted.include_raw,
        enabled=wanted.enabled,
        secrets=(),
        created_after_seq=0,
        created_at=now,
        updated_at=now,
    )
