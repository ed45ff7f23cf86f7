"""The use cases of hooks, and of an agent's own URL (agent-sessions.md sections 3.2, 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.sessions import Admitted
from opencomputer.server.contracts.starters import HookStore
from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sessions.agents import Agent
from opencomputer.server.domain.sessions.hooks import (
    MOST_HOOKS,
    MOST_PER_MINUTE,
    Hook,
    HookStatus,
    RevokedReason,
    check_expiry,
    hashed,
    http_request,
    idempotency_key,
)
from opencomputer.server.domain.sessions.idempotency import request_hash
from opencomputer.server.domain.sessions.naming import new_hook_id, new_hook_token
from opencomputer.server.domain.sessions.schedules import check_name
from opencomputer.server.services.sessions.bursts import Bursts
from opencomputer.server.services.sessions.sessions import DurableSessions, NewSession
from opencomputer.wire.ids import AgentId, HookId, OrgId


@dataclass(frozen=True)
class NewHook:
    """A hook, and its token, which is told this once."""

    hook: Hook
    token: str


class Hooks:
    """Makes hooks, takes them back, and starts sessions for those who know one."""

    def __init__(self, store: HookStore, sessions: DurableSessions, clock: Clock) -> None:
        self._store = store
        self._sessions = sessions
        self._clock = clock
        self._bursts = Bursts(clock, MOST_PER_MINUTE)

    async def create(self, agent: Agent, name: str, expires_at: datetime | None = None) -> NewHook:
        """Raises InvalidInput, NameTaken, LimitReached."""
        now, token = self._clock.now(), new_hook_token()
        hook = Hook(
            id=new_hook_id(),
            org_id=agent.org_id,
            agent_id=agent.id,
            name=check_name(name),
            token_hash=hashed(token),
            secret_last4=token[-4:],
            created_at=now,
            expires_at=check_expiry(expires_at, now),
        )
        await self._store.add(hook, most=MOST_HOOKS)
        return NewHook(hook, token)

    async def list(self, agent: Agent, *, revoked: bool, limit: int, before: Hook | None) -> Sequence[Hook]:
        """Newest first; with `before`, those after it in that order."""
        return await self._store.list(agent.id, revoked=revoked, limit=limit, before=before)

    async def find(self, agent: Agent, hook_id: str) -> Hook | None:
        return await self._store.get(agent.id, HookId(hook_id))

    async def get(self, agent: Agent, hook_id: str) -> Hook:
        """Raises NotFound."""
        hook = await self.find(agent, hook_id)
        if hook is None:
            raise NotFound("the agent has no such hook")
        return hook

    async def revoke(self, agent: Agent, hook_id: str) -> None:
        """For good; sessions that it started go on. Idempotent. Raises NotFound."""
        hook = await self.get(agent, hook_id)
        await self._store.revoke(hook.id, RevokedReason.MANUAL, self._clock.now())

    async def open(self, agent_id: str, token: str) -> Hook:
        """The hook that somebody knows. Raises NotFound, whyever it starts nothing, and RateLimited."""
        hook = await self._store.of_token(hashed(token))
        now = self._clock.now()
        if hook is None or hook.agent_id != agent_id or hook.status(now) is not HookStatus.ACTIVE:
            raise nothing_there()
        self._bursts.take(hook.id)
        return hook

    async def receive(self, hook: Hook, payload: Any, key: str | None) -> Admitted:
        """Start a session with what a hook was sent, or give the one that this key started before.

        Raises what DurableSessions.create does.
        """
        return await self._start(hook.org_id, hook.agent_id, payload, key, hook)

    async def invoke(self, agent: Agent, payload: Any, key: str | None) -> Admitted:
        """The same for what was sent to the agent's own URL, with a key of the API."""
        return await self._start(agent.org_id, agent.id, payload, key)

    async def _start(
        self, org_id: OrgId, agent_id: AgentId, payload: Any, key: str | None, hook: Hook | None = None
    ) -> Admitted:
        wanted = NewSession(
            agent=agent_id,
            input=http_request(payload, hook),
            request_hash=request_hash("http.request", payload),
            idempotency_key=idempotency_key(agent_id, key),
        )
        return await self._sessions.create(org_id, wanted)


def nothing_there() -> NotFound:
    """The same for everything below an agent's URL, so that nobody learns what there is."""
    return NotFound("there is nothing here")
