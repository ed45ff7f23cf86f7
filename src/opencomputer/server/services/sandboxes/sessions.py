"""Exec and terminal sessions: processes that outlive any connection."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from opencomputer.server.contracts.machine import (
    Attachment,
    ProcessKind,
    ProcessRecord,
    ProcessSpec,
    TerminalSize,
)
from opencomputer.server.domain import naming
from opencomputer.server.domain.commands import login_shell
from opencomputer.server.domain.errors import InvalidInput, NotFound
from opencomputer.server.services.sandboxes.commands import CommandRequest, check_same_request
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.log_recorder import LogRecorder
from opencomputer.wire.ids import ProcessId

SessionAttachment = Attachment
DEFAULT_SIZE = TerminalSize(80, 24)
SIGKILL = 9
_TERMINAL_LINGER_SECONDS = 24 * 3600.0
_LISTED = (ProcessKind.SESSION, ProcessKind.AGENT)


class Sessions:
    """Every call checks that the id names a session of the kind the route is about: NotFound otherwise."""

    def __init__(self, recorder: LogRecorder | None = None) -> None:
        self._recorder = recorder

    def record(self, live: LiveSandbox, record: ProcessRecord) -> None:
        """Let what a session that was just started says be recorded."""
        if self._recorder is not None:
            self._recorder.began(live, record)

    async def start(self, live: LiveSandbox, request: CommandRequest) -> ProcessRecord:
        spec = request.process(ProcessKind.SESSION, live.id)
        record = await live.machine.processes.spawn(spec)
        check_same_request(spec, record)
        self.record(live, record)
        return record

    async def list(self, live: LiveSandbox) -> Sequence[ProcessRecord]:
        records = await live.machine.processes.list()
        return [record for record in records if record.kind in _LISTED]

    async def get(self, live: LiveSandbox, process_id: ProcessId, *kinds: ProcessKind) -> ProcessRecord:
        record = await live.machine.processes.get(process_id)
        if record.kind not in (kinds or _LISTED):
            raise NotFound("there is no such session")
        return record

    async def kill(self, live: LiveSandbox, process_id: ProcessId, signal: int, *kinds: ProcessKind) -> None:
        """Signal a session's process group; 0 means SIGKILL. A session that has ended stays as it is."""
        record = await self.get(live, process_id, *kinds)
        if record.exit is None:
            await live.machine.processes.signal(record.id, signal or SIGKILL)

    def attach(self, live: LiveSandbox, process_id: ProcessId) -> AbstractAsyncContextManager[Attachment]:
        """Everything retained, then what comes. For exec and agent sessions."""
        return live.machine.processes.attach(process_id, offset=0, counted=True)

    async def open_terminal(self, live: LiveSandbox, size: TerminalSize, shell: str | None) -> ProcessRecord:
        spec = ProcessSpec(
            id=naming.new_process_id(),
            kind=ProcessKind.PTY,
            argv=login_shell(shell),
            stdin=True,
            linger_seconds=_TERMINAL_LINGER_SECONDS,
            terminal=TerminalSize(size.columns or DEFAULT_SIZE.columns, size.rows or DEFAULT_SIZE.rows),
        )
        record = await live.machine.processes.spawn(spec)
        if record.exit is not None and record.exit.error is not None:
            raise InvalidInput(f"shell cannot be started: {record.exit.error}", field="shell")
        return record

    async def terminals(self, live: LiveSandbox) -> Sequence[ProcessRecord]:
        """Terminals that run, and those that ended a short while ago."""
        return [each for each in await live.machine.processes.list() if each.kind is ProcessKind.PTY]

    def attach_terminal(
        self, live: LiveSandbox, process_id: ProcessId, offset: int | None = None
    ) -> AbstractAsyncContextManager[Attachment]:
        """What no reader has seen yet, or was retained from `offset` on, then what comes.

        Takes over from an earlier reader.
        """
        return live.machine.processes.attach(process_id, offset=offset, counted=True)

    async def resize_terminal(self, live: LiveSandbox, process_id: ProcessId, size: TerminalSize) -> None:
        record = await self.get(live, process_id, ProcessKind.PTY)
        if record.exit is None:
            await live.machine.processes.resize(record.id, size)
