"""The desk where the tools of turns are handed out, each to one brain and for one request of it."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.tools import ToolScope
from opencomputer.server.domain.egress import METADATA_URL
from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sandbox import Sandbox
from opencomputer.server.domain.sessions.events import Level
from opencomputer.server.domain.sessions.session import Session
from opencomputer.server.services.sessions.tool_calls import OpenDesk
from opencomputer.wire.ids import SessionId

SESSION_LABEL = "oc.session"
ROLE_LABEL = "oc.role"
BRAIN = "brain"

_REMEMBERED_ATTEMPTS = 10_000


class Tools:
    """Implements ToolDesk. `level` is that of the events of tool calls; messages are always for the user."""

    def __init__(self, clock: Clock, level: Level = Level.INTERNAL, base_url: str = METADATA_URL) -> None:
        self._clock = clock
        self._level = level
        self._base_url = base_url
        self._open: dict[bytes, tuple[Session, OpenDesk]] = {}
        self._said: OrderedDict[SessionId, tuple[str, Counter[str]]] = OrderedDict()

    @asynccontextmanager
    async def open(self, scope: ToolScope) -> AsyncGenerator[OpenDesk]:
        token = secrets.token_urlsafe(32)
        url = f"{self._base_url}/v1/tools/{token}/mcp"
        desk = OpenDesk(scope, url, self._said_before(scope), self._level, self._clock)
        self._open[_digest(token)] = (scope.session, desk)
        try:
            yield desk
        finally:
            del self._open[_digest(token)]
            await desk.close()

    def find(self, caller: Sandbox, token: str) -> OpenDesk:
        """The tools with this token, if the caller is the brain that they are for. Raises NotFound."""
        found = self._open.get(_digest(token))
        if found is None or not _is_brain_of(caller, found[0]):
            raise NotFound("no tools are served here")
        return found[1]

    def _said_before(self, scope: ToolScope) -> Counter[str]:
        """How often this attempt has said what, in requests before this one."""
        attempt = f"{scope.turn.id}:{scope.turn.attempt}"
        session_id = scope.session.id
        known = self._said.pop(session_id, None)
        said = known[1] if known is not None and known[0] == attempt else Counter[str]()
        self._said[session_id] = (attempt, said)
        while len(self._said) > _REMEMBERED_ATTEMPTS:
            self._said.popitem(last=False)
        return said


def _digest(token: str) -> bytes:
    """What is looked up: how long that takes tells nothing of any token."""
    return hashlib.sha256(token.encode()).digest()


def _is_brain_of(caller: Sandbox, session: Session) -> bool:
    labels = caller.metadata or {}
    return (
        caller.org_id == session.org_id
        and labels.get(SESSION_LABEL) == session.id
        and labels.get(ROLE_LABEL) == BRAIN
    )
