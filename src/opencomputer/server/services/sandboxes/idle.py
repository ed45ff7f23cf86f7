"""Sandboxes that nobody uses go to sleep (behaviour section 4).

When a sandbox is due stands in its row. Being used does not write the row: when it comes due, the activity
since is looked at, and the row gets the new time. So a busy sandbox costs one write per period.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.stores import SandboxStore
from opencomputer.server.domain.errors import Gone, NotFound, OpenComputerError, OperationInProgress
from opencomputer.server.domain.sandbox import Sandbox, backoff_seconds
from opencomputer.server.services.background import Background
from opencomputer.server.services.repeating import repeat
from opencomputer.server.services.sandboxes.capture import reason_of
from opencomputer.server.services.sandboxes.deadlines import deadline
from opencomputer.server.services.sandboxes.hibernation import Hibernation
from opencomputer.server.services.sandboxes.live import LiveSandboxes
from opencomputer.wire.ids import SandboxId

_log = structlog.get_logger(__name__)

POLL_SECONDS = 1.0
_AT_ONCE = 4
_BATCH = 100


class IdleTimeouts:
    """Puts sandboxes to sleep that have not been used for as long as their timeout says."""

    def __init__(
        self,
        sandboxes: SandboxStore,
        live: LiveSandboxes,
        hibernation: Hibernation,
        clock: Clock,
        background: Background,
    ) -> None:
        self._sandboxes = sandboxes
        self._live = live
        self._hibernation = hibernation
        self._clock = clock
        self._background = background
        self._under_way: set[SandboxId] = set()
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def keep(self) -> None:
        """Look once a second until cancelled."""
        await repeat(
            self.look,
            self._clock,
            pause_seconds=POLL_SECONDS,
            complaint="idle timeouts were not looked at; the next look comes in a second",
        )

    async def look(self) -> None:
        """Begin with every sandbox that is due."""
        for sandbox in await self._sandboxes.due(self._clock.now(), limit=_BATCH):
            if sandbox.id not in self._under_way:
                self._under_way.add(sandbox.id)
                self._background.start(self._expire(sandbox), name=f"idle timeout of {sandbox.id}")

    async def _expire(self, sandbox: Sandbox) -> None:
        try:
            async with self._places:
                await self._hibernate_or_postpone(sandbox)
        finally:
            self._under_way.discard(sandbox.id)

    async def _hibernate_or_postpone(self, sandbox: Sandbox) -> None:
        live = self._live.get(sandbox.org_id, sandbox.id)
        if live is None:
            return  # not served yet, or not any more: the next look decides
        due_at = deadline(live.activity.last(), sandbox.timeout_seconds)
        if due_at is None or due_at > self._clock.now():
            await self._sandboxes.update(sandbox.id, {"due_at": due_at, "hibernate_failures": 0})
            return
        try:
            await self._hibernation.hibernate_unused(live)
        except (OperationInProgress, Gone, NotFound):
            return  # in use after all, or stopped: the next look decides
        except Exception as error:
            # Whatever it is: not every second again.
            failures = (
                0 if _used_since_last_attempt(sandbox, live.activity.last()) else sandbox.hibernate_failures
            )
            await self._postpone(sandbox, failures + 1, reason_of(error))
            if not isinstance(error, OpenComputerError):
                raise

    async def _postpone(self, sandbox: Sandbox, failures: int, reason: str) -> None:
        """Never destroy what could not be put to sleep; try again later and later."""
        pause = backoff_seconds(failures)
        _log.error(
            "an unused sandbox could not be put to sleep; it runs on",
            sandbox=sandbox.id,
            reason=reason,
            next_attempt_seconds=pause,
        )
        await self._sandboxes.update(
            sandbox.id,
            {
                "due_at": self._clock.now() + timedelta(seconds=pause),
                "hibernate_failures": failures,
                "last_hibernate_error": reason,
            },
        )


def _used_since_last_attempt(sandbox: Sandbox, last_use: datetime) -> bool:
    if sandbox.due_at is None or not sandbox.hibernate_failures:
        return False
    return last_use > sandbox.due_at - timedelta(seconds=backoff_seconds(sandbox.hibernate_failures))
