"""Records what commands, sessions and agents say, whether or not anybody listens. Terminals never."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.logs import LogStore
from opencomputer.server.contracts.machine import ExitStatus, Output, ProcessKind, ProcessRecord
from opencomputer.server.domain.errors import NotFound, OpenComputerError
from opencomputer.server.domain.log_lines import LineCutter, LogLine, LogSource, bounded_command
from opencomputer.server.services.background import Background
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.log_writer import LogWriter
from opencomputer.wire.ids import SandboxId

_RECORDED = frozenset({ProcessKind.RUN, ProcessKind.SESSION, ProcessKind.AGENT})
_STREAMS = (1, 2)
_OLD_SECONDS = 5.0


def _key(process_id: str, stream: int) -> str:
    return f"x:{process_id}:{stream}"


class _Stream:
    """One stream of one process: how far its lines are complete."""

    def __init__(self, position: int) -> None:
        self.cutter = LineCutter()
        self.position = position

    def feed(self, output: Output) -> list[str]:
        if output.offset < self.position:
            output = _from(output, self.position)
        if not output.data:
            return []
        had_rest = self.cutter.pending > 0
        lines = self.cutter.feed(output.data)
        if lines or not had_rest:
            self.position = output.offset + len(output.data) - self.cutter.pending
        return lines


class ProcessLog:
    """Turns what one process writes into lines. Pieces that were heard before are passed over."""

    def __init__(self, writer: LogWriter, clock: Clock, sandbox_id: SandboxId, record: ProcessRecord) -> None:
        self.record = record
        self._writer = writer
        self._clock = clock
        self._sandbox_id = sandbox_id
        self._command = bounded_command(record.argv)
        self._streams = {stream: _Stream(0) for stream in _STREAMS}
        self._heard = 0
        self._over = False

    @property
    def heard(self) -> int:
        """Up to where it was told everything."""
        return self._heard

    def begin_at(self, positions: Sequence[int]) -> None:
        """Pass over what was recorded before: up to a place for each stream."""
        for stream, position in zip(_STREAMS, positions, strict=True):
            self._streams[stream].position = position
        self._heard = min(positions)
        self._add([], self._positions())

    def feed(self, output: Output) -> None:
        """Take down a piece of output."""
        if output.offset + len(output.data) <= self._heard or self._over:
            return
        if output.offset > self._heard:
            self._writer.lose(self._sandbox_id, 1)
        output = _from(output, self._heard)
        self._heard = output.offset + len(output.data)
        stream = self._streams[output.stream]
        if self._writer.exhausted(self._sandbox_id):
            self._writer.lose(self._sandbox_id, stream.cutter.skip(output.data))
            stream.position = self._heard
            return
        lines = stream.feed(output)
        if lines:
            source = self._source(output.stream)
            self._add([self._line(source, line) for line in lines], self._positions())

    def end(self, status: ExitStatus) -> None:
        """Take down that it ended, and what it said last without ending the line."""
        if self._over:
            return
        self._over = True
        lines = [
            self._line(self._source(stream), line)
            for stream in _STREAMS
            for line in self._streams[stream].cutter.rest()
        ]
        last = self._line(self._source(1), status.error or "", exit_code=status.code)
        self._add([*lines, last], dict.fromkeys(self._positions()))

    def forget(self) -> None:
        """It is gone, and nobody knows how it ended."""
        self._add([], dict.fromkeys(self._positions()))

    def _positions(self) -> dict[str, int | None]:
        return {
            _key(self.record.id, stream): each.position if each.cutter.pending else self._heard
            for stream, each in self._streams.items()
        }

    def _add(self, lines: Sequence[LogLine], positions: dict[str, int | None]) -> None:
        self._writer.add(self._sandbox_id, lines, positions)

    def _source(self, stream: int) -> LogSource:
        if self.record.kind is ProcessKind.AGENT:
            return LogSource.AGENT
        return LogSource.EXEC_STDOUT if stream == 1 else LogSource.EXEC_STDERR

    def _line(self, source: LogSource, text: str, *, exit_code: int | None = None) -> LogLine:
        return LogLine(
            self._clock.now(),
            source,
            text,
            exec_id=self.record.id,
            command=self._command,
            exit_code=exit_code,
        )


class LogRecorder:
    """Attaches to sessions by itself; who reads a command anyway passes on what it reads.

    What a machine says while nobody is there to record it, its guest keeps: recording goes on where it was.
    """

    def __init__(
        self,
        writer: LogWriter,
        over: Callable[[LiveSandbox], None],
        store: LogStore,
        clock: Clock,
        background: Background,
    ) -> None:
        """`over` is told whenever a process has ended."""
        self._writer = writer
        self._over = over
        self._store = store
        self._clock = clock
        self._background = background
        self._logs: dict[tuple[LiveSandbox, str], ProcessLog] = {}

    def hearing(self, live: LiveSandbox, record: ProcessRecord) -> ProcessLog | None:
        """The log of a process that was just started, for one who reads all it writes.

        None: it was started by an earlier request, and is recorded already.
        """
        log = self._logs.get((live, record.id))
        if log is None and not self._is_old(record):
            log = self._begin(live, record)
            log.begin_at((0, 0))
        return log

    def _is_old(self, record: ProcessRecord) -> bool:
        return record.exit is not None and self._clock.now().timestamp() - record.started_at > _OLD_SECONDS

    def _begin(self, live: LiveSandbox, record: ProcessRecord) -> ProcessLog:
        log = self._logs[live, record.id] = ProcessLog(self._writer, self._clock, live.id, record)
        return log

    def heard(self, live: LiveSandbox, process_id: str) -> None:
        """Nobody passes anything on of this process any more."""
        if self._logs.pop((live, process_id), None) is not None:
            self._over(live)

    def go_on(self, live: LiveSandbox, process_id: str) -> None:
        """Follow a process to its end of which nobody passes anything on any more."""
        log = self._logs.get((live, process_id))
        if log is not None:
            self._background.start(self._follow(live, log, log.heard), name=f"record {process_id}")

    def began(self, live: LiveSandbox, record: ProcessRecord) -> None:
        """Follow a session or an agent that was just started, once."""
        if (live, record.id) in self._logs:
            return
        log = self.hearing(live, record)
        if log is not None:
            self._background.start(self._follow(live, log, 0), name=f"record {record.id}")

    async def resume(self, live: LiveSandbox) -> None:
        """Go on with the processes of a machine that was taken over, woken or copied."""
        positions = await self._store.positions(live.id)
        known = {key.split(":")[1] for key in positions if key.startswith("x:")}
        if not known and not live.sandbox.layers:
            return  # nothing has run in it
        records = {each.id: each for each in await live.machine.processes.list()}
        for record in records.values():
            if record.kind not in _RECORDED or (live, record.id) in self._logs:
                continue
            if record.id in known:
                before = [positions.get(_key(record.id, stream), 0) for stream in _STREAMS]
                self._go_on(live, record, before)
            elif record.exit is None:
                self._go_on(live, record, None)
        gone = [each for each in known - records.keys() if (live, each) not in self._logs]
        keys = [_key(each, stream) for each in gone for stream in _STREAMS]
        self._writer.add(live.id, (), dict.fromkeys(keys))

    def _go_on(self, live: LiveSandbox, record: ProcessRecord, before: Sequence[int] | None) -> None:
        log = self._begin(live, record)
        self._background.start(self._follow(live, log, before), name=f"record {record.id}")

    async def _follow(self, live: LiveSandbox, log: ProcessLog, before: Sequence[int] | int | None) -> None:
        """Record from where it was; None: what was written already belongs to another sandbox."""
        offset = before if isinstance(before, int) else min(before or (0,))
        try:
            async with live.machine.processes.attach(log.record.id, offset=offset) as attachment:
                if not isinstance(before, int):
                    end = attachment.replay_end
                    # Further than there is: the machine went back to an earlier time.
                    back = before is None or max(before) > end
                    log.begin_at((end, end) if back or before is None else before)
                async for event in attachment:
                    if isinstance(event, ExitStatus):
                        log.end(event)
                        return
                    log.feed(event)
                    await self._pace(live)
        except NotFound:
            log.forget()
        except OpenComputerError:
            pass  # the machine is let go; another may go on with the process
        finally:
            self.heard(live, log.record.id)

    async def _pace(self, live: LiveSandbox) -> None:
        """Read no faster than may be kept: what is missed meanwhile, the guest forgets for us."""
        if self._writer.exhausted(live.id):
            now = self._clock.monotonic()
            await self._clock.sleep(1.0 - now % 1.0)


def _from(output: Output, offset: int) -> Output:
    if output.offset >= offset:
        return output
    return Output(output.stream, offset, output.data[offset - output.offset :])
