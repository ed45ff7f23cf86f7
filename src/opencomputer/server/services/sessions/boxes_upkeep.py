"""Sandboxes of sessions that nobody needs any more are ended, whatever came in between."""

from __future__ import annotations

from datetime import timedelta

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.sessions import SessionStore
from opencomputer.server.contracts.stores import SandboxStore
from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.services.repeating import repeat
from opencomputer.server.services.sandboxes.lifecycle import Lifecycle
from opencomputer.server.services.sessions.boxes_sandboxes import SESSION, is_session_box
from opencomputer.wire.ids import SessionId

_log = structlog.get_logger(__name__)

_SWEEP_SECONDS = 300.0
_GRACE = timedelta(minutes=10)
"""How old a sandbox is that its session should know of by now."""


class BoxUpkeep:
    """Ends the sandboxes of archived sessions, and those that were made and never written down."""

    def __init__(
        self, sandboxes: SandboxStore, lifecycle: Lifecycle, store: SessionStore, clock: Clock
    ) -> None:
        self._sandboxes = sandboxes
        self._lifecycle = lifecycle
        self._store = store
        self._clock = clock

    async def keep(self) -> None:
        """Sweep until cancelled."""
        await repeat(
            self.sweep,
            self._clock,
            pause_seconds=_SWEEP_SECONDS,
            complaint="sandboxes of sessions were not swept; the next sweep tries again",
        )

    async def sweep(self) -> None:
        for sandbox in await self._sandboxes.in_states([SandboxState.RUNNING, SandboxState.HIBERNATED]):
            if is_session_box(sandbox) and await self._is_superfluous(sandbox):
                _log.info("ending a sandbox that no session needs", sandbox=sandbox.id)
                try:
                    await self._lifecycle.kill(sandbox.org_id, sandbox.id)
                except OpenComputerError as error:
                    _log.warning("it could not be ended", sandbox=sandbox.id, reason=error.message)

    async def _is_superfluous(self, sandbox: Sandbox) -> bool:
        session = await self._store.find(SessionId(sandbox.metadata[SESSION]))
        if session is not None and session.org_id == sandbox.org_id:
            if session.archived:
                return True
            if sandbox.id in (session.boxes.brain, session.boxes.hands):
                return False
        # The session of a fork comes into being after its hands.
        return sandbox.created_at < self._clock.now() - _GRACE
