"""Reading the logs of sandboxes, whatever state they are in. It wakes nobody, and is no use of a sandbox."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from opencomputer.server.domain.errors import LogsOff
from opencomputer.server.domain.log_lines import LogLine, LogQuery
from opencomputer.server.domain.sandbox import SandboxState
from opencomputer.server.services.sandboxes.lifecycle import Lifecycle
from opencomputer.server.services.sandboxes.live import LiveSandboxes
from opencomputer.server.services.sandboxes.log_writer import LogReader
from opencomputer.server.services.sandboxes.recording import Recording
from opencomputer.wire.ids import OrgId, SandboxId


class LogTail:
    """What is written down from now on."""

    def __init__(self, reader: LogReader, query: LogQuery) -> None:
        self._reader = reader
        self._query = query

    async def next(self, seconds: float) -> Sequence[LogLine] | None:
        """What has come of what is wanted, perhaps nothing, within so long. None: nothing comes any more."""
        lines = await self._reader.next(seconds)
        return None if lines is None else [line for line in lines if self._query.wants(line)]


@dataclass(frozen=True)
class OpenLog:
    """What there was when the log was opened, and its tail: no line is in both, none in neither."""

    history: Sequence[LogLine]
    tail: LogTail


class Logs:
    def __init__(self, recording: Recording, lifecycle: Lifecycle, live: LiveSandboxes) -> None:
        self._recording = recording
        self._lifecycle = lifecycle
        self._live = live

    async def check(self, org_id: OrgId, sandbox_id: SandboxId) -> None:
        """Raises NotFound, LogsOff. Sandboxes that sleep or are stopped have a log, too."""
        await self._lifecycle.get(org_id, sandbox_id)
        if self._recording.recorder is None:
            raise LogsOff

    async def closed(self) -> None:
        """Return when the node stops."""
        await self._recording.closed.wait()

    @asynccontextmanager
    async def open(self, org_id: OrgId, sandbox_id: SandboxId, query: LogQuery) -> AsyncGenerator[OpenLog]:
        """Raises NotFound."""
        sandbox = await self._lifecycle.get(org_id, sandbox_id)
        recording = self._recording
        live = self._live.get(org_id, sandbox_id)
        if live is not None and not live.machine.frozen:
            await recording.files.look(live)
        await recording.writer.flush()
        with recording.writer.reading(sandbox_id) as reader:
            history = await recording.store.find(sandbox_id, query)
            if sandbox.state is SandboxState.STOPPED:
                reader.end()
            seen = history[-1].number if history else query.after
            yield OpenLog(history, LogTail(reader, replace(query, after=seen, until=None)))
