"""One-shot commands: run to completion, with the output kept in memory only as far as it can be asked for."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.machine import (
    ExitStatus,
    Output,
    ProcessKind,
    ProcessRecord,
    ProcessSpec,
)
from opencomputer.server.domain import naming
from opencomputer.server.domain.commands import check_directory, resolve_command
from opencomputer.server.domain.errors import (
    IdempotencyMismatch,
    MachineLost,
    NotFound,
    NotReady,
    OpenComputerError,
)
from opencomputer.server.domain.limits import check_environment
from opencomputer.server.services.background import Background
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.log_recorder import LogRecorder, ProcessLog
from opencomputer.wire.ids import ProcessId, SandboxId

OUTPUT_BYTES = 1 << 20
INLINE_SECONDS = 0.4
POLL_SECONDS = 0.5
_KEEP_SECONDS = 30.0
_REQUEST_LABEL = "request"


@dataclass(frozen=True)
class CommandRequest:
    """A command as a client asked for it. `timeout_seconds` 0 or None means unlimited."""

    command: str
    arguments: Sequence[str] | None = None
    environment: Mapping[str, str] | None = None
    cwd: str | None = None
    timeout_seconds: int | None = None
    linger_seconds: int | None = None
    idempotency_key: str | None = None

    def process(self, kind: ProcessKind, sandbox_id: SandboxId) -> ProcessSpec:
        check_directory(self.cwd)
        check_environment(self.environment or {})
        key = self.idempotency_key
        return ProcessSpec(
            id=naming.new_process_id() if key is None else naming.process_id_for(key, sandbox_id),
            kind=kind,
            argv=resolve_command(self.command, self.arguments),
            environment=self.environment or {},
            cwd=self.cwd,
            stdin=kind is not ProcessKind.RUN,
            timeout_seconds=self.timeout_seconds or None,
            linger_seconds=self.linger_seconds or None,
            scrollback_bytes=OUTPUT_BYTES,
            labels={} if key is None else {_REQUEST_LABEL: self._fingerprint()},
        )

    def _fingerprint(self) -> str:
        parts = [self.command, self.arguments, self.environment, self.cwd]
        text = json.dumps([*parts, self.timeout_seconds, self.linger_seconds], default=dict, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def check_same_request(spec: ProcessSpec, record: ProcessRecord) -> None:
    """Raise IdempotencyMismatch when the process of this key was started for another request."""
    if record.labels.get(_REQUEST_LABEL) != spec.labels.get(_REQUEST_LABEL):
        raise IdempotencyMismatch


class OutputTail:
    """The last bytes of one stream. Linear in what passes through, bounded in what it keeps, however small
    the pieces are."""

    def __init__(self, limit: int = OUTPUT_BYTES) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._passed = 0

    @property
    def cut(self) -> bool:
        return self._passed > self._limit

    def add(self, data: bytes) -> None:
        self._kept += data
        self._passed += len(data)
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    def value(self) -> bytes:
        return bytes(self._kept[-self._limit :])


@dataclass
class Progress:
    """What is known of a one-shot command. `exit` is None while it runs."""

    id: ProcessId
    started_at: datetime
    stdout: OutputTail = field(default_factory=OutputTail)
    stderr: OutputTail = field(default_factory=OutputTail)
    gap: bool = False
    exit: ExitStatus | None = None
    lost: OpenComputerError | None = None

    @property
    def truncated(self) -> bool:
        return self.gap or self.stdout.cut or self.stderr.cut


@dataclass(eq=False)
class _Collector:
    progress: Progress
    task: asyncio.Task[None]
    finished_at: float | None = None


class Commands:
    """Runs commands and remembers those that were started asynchronously.

    Collectors are only a cache: the guest keeps the output for its retention, so that a handle also
    works after a restart of the server. Each belongs to one machine of its sandbox: after a sleep the next
    one asks the machine that went on.
    """

    def __init__(self, clock: Clock, background: Background, recorder: LogRecorder | None = None) -> None:
        self._clock = clock
        self._background = background
        self._recorder = recorder
        self._collectors: dict[tuple[LiveSandbox, ProcessId], _Collector] = {}

    async def start(self, live: LiveSandbox, request: CommandRequest) -> Progress:
        """Start a command, once per idempotency key."""
        spec = request.process(ProcessKind.RUN, live.id)
        record = await live.machine.processes.spawn(spec)
        check_same_request(spec, record)
        log = None if self._recorder is None else self._recorder.hearing(live, record)
        return self._collector(live, record, log).progress

    async def wait(self, live: LiveSandbox, progress: Progress, seconds: float | None) -> Progress:
        """Wait until the command has ended, at most `seconds`.

        Raises MachineLost, or Interrupted when the sandbox goes on with another machine.
        """
        collector = self._collectors.get((live, progress.id))
        if collector is not None and progress.exit is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await asyncio.shield(collector.task)
        if progress.lost is not None:
            raise type(progress.lost)(progress.lost.message)
        return progress

    async def result(self, live: LiveSandbox, process_id: ProcessId) -> Progress:
        """How far a command is; waits a moment for its end. Raises NotFound for unknown handles."""
        self._forget_old()
        collector = self._collectors.get((live, process_id))
        if collector is None:
            record = await live.machine.processes.get(process_id)
            if record.kind is not ProcessKind.RUN:
                raise NotFound("there is no such command")
            collector = self._collector(live, record)
        return await self.wait(live, collector.progress, POLL_SECONDS)

    def _collector(
        self, live: LiveSandbox, record: ProcessRecord, log: ProcessLog | None = None
    ) -> _Collector:
        self._forget_old()
        key = (live, ProcessId(record.id))
        collector = self._collectors.get(key)
        if collector is None:
            progress = Progress(ProcessId(record.id), datetime.fromtimestamp(record.started_at, UTC))
            task = self._background.start(self._collect(live, progress, log), name=f"command {record.id}")
            collector = self._collectors[key] = _Collector(progress, task)
        return collector

    async def _collect(self, live: LiveSandbox, progress: Progress, log: ProcessLog | None) -> None:
        try:
            await self._read(live, progress, log)
        except NotFound as error:
            progress.lost = MachineLost(error.message)
        except (MachineLost, NotReady) as error:
            progress.lost = live.explain(error)
        finally:
            if self._recorder is not None:
                self._recorder.heard(live, progress.id)
            collector = self._collectors.get((live, progress.id))
            if collector is not None:
                collector.finished_at = self._clock.monotonic()

    async def _read(self, live: LiveSandbox, progress: Progress, log: ProcessLog | None) -> None:
        expected = 0
        async with live.machine.processes.attach(progress.id) as attachment:
            async for event in attachment:
                if isinstance(event, Output):
                    progress.gap |= event.offset != expected
                    expected = event.offset + len(event.data)
                    (progress.stdout if event.stream == 1 else progress.stderr).add(event.data)
                    if log is not None:
                        log.feed(event)
                    continue
                if log is not None:
                    log.end(event)
                progress.exit = event

    def _forget_old(self) -> None:
        horizon = self._clock.monotonic() - _KEEP_SECONDS
        old = [
            key
            for key, each in self._collectors.items()
            if each.finished_at is not None and each.finished_at < horizon
        ]
        for key in old:
            del self._collectors[key]
