"""What an operator does about hooks that others have seen (agent-sessions.md section 3.3)."""

from __future__ import annotations

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.starters import HookStore
from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sessions.hooks import Hook, RevokedReason, hashed

_log = structlog.get_logger(__name__)


class LeakedHooks:
    """Hooks of whatever organisation."""

    def __init__(self, store: HookStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def revoke(self, token: str) -> Hook:
        """Revoke the hook of this token; it says why from then on. Raises NotFound."""
        hook = await self._store.of_token(hashed(token))
        if hook is None:
            raise NotFound("no hook has this token")
        if await self._store.revoke(hook.id, RevokedReason.SECRET_EXPOSURE, self._clock.now()):
            _log.warning("the URL of a hook was exposed; it is revoked", hook=hook.id, agent=hook.agent_id)
        return await self._store.get(hook.agent_id, hook.id) or hook
