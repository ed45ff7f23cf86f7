"""The parts that record logs, put together, and attending to sandboxes as they come and go."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.logs import LogStore
from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.services.background import Background
from opencomputer.server.services.repeating import repeat
from opencomputer.server.services.sandboxes.live import Ending, LiveSandbox, LiveSandboxes
from opencomputer.server.services.sandboxes.log_files import LogFiles
from opencomputer.server.services.sandboxes.log_recorder import LogRecorder
from opencomputer.server.services.sandboxes.log_writer import LogWriter

_log = structlog.get_logger(__name__)

_PRUNE_SECONDS = 600.0


@dataclass(frozen=True)
class LogLimits:
    """How long logs are kept to which nothing is added, and how large all of them together may be."""

    age: timedelta = timedelta(days=30)
    total_bytes: int = 2 << 30


class Recording:
    """Records as long as it is kept. Without room for logs it records nothing: `recorder` is None then."""

    def __init__(
        self, store: LogStore, live: LiveSandboxes, clock: Clock, background: Background, limits: LogLimits
    ) -> None:
        self.store = store
        self.writer = LogWriter(store, clock)
        self.files = LogFiles(live, self.writer, store, clock)
        self.recorder: LogRecorder | None = None
        self.closed = asyncio.Event()
        self._clock = clock
        self._background = background
        self._limits = limits
        if limits.total_bytes:
            self.recorder = LogRecorder(self.writer, self.files.note_activity, store, clock, background)
            live.listen(self._moved)

    async def keep(self) -> None:
        """Write, look and forget as long as this is not cancelled."""
        pruning = repeat(
            self._prune, self._clock, pause_seconds=_PRUNE_SECONDS, complaint="old logs were not removed"
        )
        try:
            await asyncio.gather(self.writer.keep(), self.files.keep(), pruning)
        finally:
            self.closed.set()

    async def _prune(self) -> None:
        before = self._clock.now() - self._limits.age
        pruned = await self.store.prune(before, keep_bytes=self._limits.total_bytes)
        if pruned:
            _log.info("old logs of sandboxes removed", sandboxes=pruned)

    def _moved(self, live: LiveSandbox) -> None:
        if not live.ended.is_set():
            self._background.start(self._begin(live), name=f"record {live.id}")
            return
        self.files.end(live)
        if live.ending is Ending.STOPPED:
            self._background.start(self.writer.end(live.id), name=f"end the log of {live.id}", finish=True)

    async def _begin(self, live: LiveSandbox) -> None:
        assert self.recorder is not None
        try:
            await self.recorder.resume(live)
            await self.files.begin(live)
        except (OpenComputerError, TimeoutError) as error:
            if not live.ended.is_set():
                _log.warning("a sandbox's log is not complete", sandbox=live.id, reason=str(error))
