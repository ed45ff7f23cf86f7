"""What this process does with sessions right now: one thing at a time with each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from opencomputer.server.services.hints import Hint
from opencomputer.wire.ids import SessionId

_log = structlog.get_logger(__name__)


class SessionTasks:
    """Runs turns and puts boxes to rest, never both of one session at once."""

    def __init__(self) -> None:
        self._tasks: dict[SessionId, asyncio.Task[None]] = {}
        self._waiting: set[Hint] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, session_id: SessionId, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Begin with something, unless the session is being worked on."""
        if session_id in self._tasks:
            return False
        task = asyncio.create_task(work(), name=f"session {session_id}")
        self._tasks[session_id] = task
        task.add_done_callback(lambda done: self._done(session_id, done))
        return True

    def tell_when_done(self, hint: Hint) -> None:
        """As soon as any of the tasks has ended."""
        self._waiting.add(hint)

    async def close(self) -> None:
        """Cancel everything, and wait until it has been given back."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _done(self, session_id: SessionId, task: asyncio.Task[None]) -> None:
        del self._tasks[session_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("work on a session failed", session=session_id, exc_info=error)
        while self._waiting:
            self._waiting.pop().tell()
