"""Writes the logs of sandboxes down and tells who reads them, without anybody having to wait for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.logs import LogBatch, LogStore
from opencomputer.server.domain.log_lines import LogLine
from opencomputer.wire.ids import SandboxId

_log = structlog.get_logger(__name__)

BATCH_SECONDS = 0.1
_RETRY_SECONDS = 2.0
_LAST_WRITE_SECONDS = 5.0
LINES_PER_SECOND = 2000
BYTES_PER_SECOND = 1 << 20
_WAITING_FOR_READER = 10_000


@dataclass
class _Waiting:
    """What of one sandbox is not written down yet, and what of it was not kept."""

    lines: list[LogLine] = field(default_factory=list[LogLine])
    positions: dict[str, int | None] = field(default_factory=dict[str, int | None])
    lost: int = 0
    second: int = -1
    lines_now: int = 0
    bytes_now: int = 0


class LogReader:
    """The lines of one sandbox as they are written down. Who is too slow misses the oldest, and is told."""

    def __init__(self) -> None:
        self._lines: deque[LogLine] = deque()
        self._some = asyncio.Event()
        self._lost = 0
        self._over = False

    def add(self, lines: Sequence[LogLine]) -> None:
        self._lines.extend(lines)
        while len(self._lines) > _WAITING_FOR_READER:
            self._lost += 1 + self._lines.popleft().lost
        self._some.set()

    def end(self) -> None:
        """Nothing more comes: the sandbox is stopped."""
        self._over = True
        self._some.set()

    async def next(self, seconds: float) -> Sequence[LogLine] | None:
        """What has come; nothing when nothing came for so long. None: nothing ever comes again."""
        try:
            async with asyncio.timeout(seconds):
                await self._some.wait()
        except TimeoutError:
            return ()
        lines, self._lines = list(self._lines), deque[LogLine]()
        lost, self._lost = self._lost, 0
        if not lines:
            return None
        if not self._over:
            self._some.clear()
        return [replace(lines[0], lost=lines[0].lost + lost), *lines[1:]]


class LogWriter:
    """Takes lines of many sandboxes; a task that keeps it writes them in batches.

    Of what one sandbox says faster than its share, the rest is not kept; its next line tells how much.
    """

    def __init__(self, store: LogStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._waiting: dict[SandboxId, _Waiting] = {}
        self._readers: dict[SandboxId, set[LogReader]] = {}
        self._some = asyncio.Event()
        self._writing = asyncio.Lock()

    def exhausted(self, sandbox_id: SandboxId) -> bool:
        """Whether the sandbox has had its share of this second."""
        waiting = self._of(sandbox_id)
        return waiting.lines_now >= LINES_PER_SECOND or waiting.bytes_now >= BYTES_PER_SECOND

    def add(
        self,
        sandbox_id: SandboxId,
        lines: Sequence[LogLine],
        positions: Mapping[str, int | None] | None = None,
    ) -> None:
        """Never blocks and never fails."""
        waiting = self._of(sandbox_id)
        for line in lines:
            if line.exit_code is None and self.exhausted(sandbox_id):
                waiting.lost += 1 + line.lost
                continue
            waiting.lines_now += 1
            waiting.bytes_now += len(line.line)
            # As exact as readers see it, so that they can ask for what came since.
            at = line.at.replace(microsecond=line.at.microsecond // 1000 * 1000)
            waiting.lines.append(replace(line, at=at, lost=line.lost + waiting.lost))
            waiting.lost = 0
        waiting.positions.update(positions or {})
        self._some.set()

    def lose(self, sandbox_id: SandboxId, lines: int) -> None:
        """So many lines were not even read."""
        self._of(sandbox_id).lost += lines

    @contextmanager
    def reading(self, sandbox_id: SandboxId) -> Generator[LogReader]:
        """Every line that is written down from now on."""
        reader = LogReader()
        self._readers.setdefault(sandbox_id, set()).add(reader)
        try:
            yield reader
        finally:
            readers = self._readers[sandbox_id]
            readers.discard(reader)
            if not readers:
                del self._readers[sandbox_id]

    def is_read(self, sandbox_id: SandboxId) -> bool:
        return sandbox_id in self._readers

    async def end(self, sandbox_id: SandboxId) -> None:
        """Write down what is left of a sandbox that is stopped, and tell its readers."""
        await self.flush()
        self._waiting.pop(sandbox_id, None)
        for reader in self._readers.get(sandbox_id, ()):
            reader.end()

    async def keep(self) -> None:
        """Write as long as this is not cancelled, and then what is left."""
        try:
            while True:
                await self._some.wait()
                await self._clock.sleep(BATCH_SECONDS)
                if not await self.flush():
                    await self._clock.sleep(_RETRY_SECONDS)
        finally:
            try:
                async with asyncio.timeout(_LAST_WRITE_SECONDS):
                    await self.flush()
            except TimeoutError:
                _log.error("the last lines of sandboxes were not written down")

    async def flush(self) -> bool:
        """Write everything down that has come. False: it could not be written, and is lost."""
        async with self._writing:
            self._some.clear()
            complete = True
            for sandbox_id in [key for key, each in self._waiting.items() if each.lines or each.positions]:
                complete &= await self._write(sandbox_id, self._waiting[sandbox_id])
            self._forget_quiet()
            return complete

    async def _write(self, sandbox_id: SandboxId, waiting: _Waiting) -> bool:
        batch = LogBatch(waiting.lines, waiting.positions)
        waiting.lines, waiting.positions = [], {}
        try:
            written = await self._store.append(sandbox_id, batch)
        except OSError as failure:
            waiting.lost += len(batch.lines) + sum(line.lost for line in batch.lines)
            _log.error("the log of a sandbox cannot be written", sandbox=sandbox_id, exc_info=failure)
            return False
        for reader in self._readers.get(sandbox_id, ()):
            reader.add(written)
        return True

    def _of(self, sandbox_id: SandboxId) -> _Waiting:
        waiting = self._waiting.setdefault(sandbox_id, _Waiting())
        second = int(self._clock.monotonic())
        if waiting.second != second:
            waiting.second, waiting.lines_now, waiting.bytes_now = second, 0, 0
        return waiting

    def _forget_quiet(self) -> None:
        second = int(self._clock.monotonic())
        quiet = [
            key
            for key, each in self._waiting.items()
            if not (each.lines or each.positions or each.lost or each.second == second)
        ]
        for key in quiet:
            del self._waiting[key]
