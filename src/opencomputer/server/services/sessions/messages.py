"""What is said to sessions."""

from __future__ import annotations

from opencomputer.server.contracts.agents import AgentDirectory
from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.sessions import Accepted, SessionStore
from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sessions.errors import AgentDeleted
from opencomputer.server.domain.sessions.events import NewEvent
from opencomputer.server.domain.sessions.idempotency import request_hash
from opencomputer.wire.ids import OrgId, SessionId


class Messages:
    """Accepts input: it is in the log, and a turn will take it, before anybody is told so."""

    def __init__(self, sessions: SessionStore, agents: AgentDirectory, clock: Clock) -> None:
        self._sessions = sessions
        self._agents = agents
        self._clock = clock

    async def post(self, org_id: OrgId, session_id: SessionId, message: NewEvent) -> Accepted:
        """Append a message, once for each `message.key`, and wake the session.

        Raises NotFound, SessionArchived, AgentDeleted, and IdempotencyMismatch when the key came with
        something else before.
        """
        session = await self._sessions.get(org_id, session_id)
        if session is None:
            raise NotFound("there is no such session")
        if not session.archived and await self._agents.is_deleted(org_id, session.agent):
            raise AgentDeleted
        return await self._sessions.accept(
            session_id, message, self._clock.now(), request_hash=request_hash(message.body, message.refs)
        )
