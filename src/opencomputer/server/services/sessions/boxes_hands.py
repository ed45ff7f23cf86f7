"""The hands of a session: what its tools can do in their sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.machine import ExitStatus, Output, ProcessKind, ProcessSpec
from opencomputer.server.contracts.runtimes import CommandResult
from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import InvalidInput, MachineLost, OpenComputerError
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.log_recorder import LogRecorder, ProcessLog

WORKSPACE = "/workspace"
MODEL_BYTES = 64 << 10
"""How much of each stream a model is shown."""
OUTPUT_BYTES = 8 << 20
"""How much of both is kept."""
MAX_ENTRIES = 5000

_SCROLLBACK_BYTES = 4 << 20
_KILL = 9
_KILL_SECONDS = 5.0
_PIECE = 1 << 20


class SandboxHands:
    """Implements Hands in a sandbox. `told` is called once something was done in hands that are new. What
    commands say is recorded like that of any other command."""

    def __init__(
        self,
        live: LiveSandbox,
        clock: Clock,
        recorder: LogRecorder | None,
        *,
        lost_before: bool,
        told: Callable[[], None],
    ) -> None:
        self._live = live
        self._clock = clock
        self._recorder = recorder
        self._lost_before = lost_before
        self._told = told

    @property
    def lost_before(self) -> bool:
        return self._lost_before

    async def run(self, command: str, *, timeout_seconds: float) -> CommandResult:
        """Run it in a new shell. It is killed, with all it started, when its time is over or it is given up.

        Raises MachineLost, InvalidInput.
        """
        if "\0" in command:
            raise InvalidInput("command must not contain NUL", field="command")
        begun = self._clock.monotonic()
        heard = _Heard()
        async with self._use():
            exit_status = await self._execute(command, timeout_seconds, heard)
        duration = self._clock.monotonic() - begun
        timed_out = exit_status.reason == "timeout"
        code = exit_status.code if exit_status.code is not None else -1
        return heard.result(137 if timed_out else code, exit_status.error, timed_out, int(duration * 1000))

    async def _execute(self, command: str, timeout_seconds: float, heard: _Heard) -> ExitStatus:
        spec = ProcessSpec(
            id=naming.new_process_id(),
            kind=ProcessKind.RUN,
            argv=("bash", "-c", command),
            cwd=WORKSPACE,
            timeout_seconds=timeout_seconds,
            scrollback_bytes=_SCROLLBACK_BYTES,
        )
        record = await self._live.machine.processes.spawn(spec)
        log = None if self._recorder is None else self._recorder.hearing(self._live, record)
        try:
            return await self._read(record.id, heard, log)
        except BaseException:
            await asyncio.shield(self._end(record.id))
            if self._recorder is not None:
                self._recorder.go_on(self._live, record.id)
            raise

    async def _read(self, process_id: str, heard: _Heard, log: ProcessLog | None) -> ExitStatus:
        async with self._live.machine.processes.attach(process_id) as attachment:
            async for event in attachment:
                if isinstance(event, Output):
                    heard.add(event)
                    if log is not None:
                        log.feed(event)
                    continue
                if log is not None:
                    log.end(event)
                if self._recorder is not None:
                    self._recorder.heard(self._live, process_id)
                return event
        raise MachineLost

    async def _end(self, process_id: str) -> None:
        with suppress(OpenComputerError, TimeoutError):
            async with asyncio.timeout(_KILL_SECONDS):
                await self._live.machine.processes.signal(process_id, _KILL)

    async def read(self, path: str, *, limit: int) -> bytes:
        """The first `limit` bytes of a file. Raises as Machine.files does."""
        content = bytearray()
        async with self._use(), self._live.machine.files.read(path) as file:
            async for chunk in file.chunks:
                content += chunk
                if len(content) >= limit:
                    break
        return bytes(content[:limit])

    async def write(self, path: str, content: bytes) -> None:
        """Write a whole file, with the folders it needs. Raises as Machine.files does."""
        async with self._use():
            await self._live.machine.files.write(path, _pieces(content), size_hint=len(content))

    async def list(self, path: str) -> Sequence[Mapping[str, Any]]:
        """Entries of a folder, at most MAX_ENTRIES of them. Raises as Machine.files does."""
        async with self._use():
            entries = await self._live.machine.files.list(path)
        return [
            {
                "name": each.name,
                "path": each.path,
                "type": "directory" if each.is_directory else "file",
                "size": each.size_bytes,
            }
            for each in entries[:MAX_ENTRIES]
        ]

    @asynccontextmanager
    async def _use(self) -> AsyncGenerator[None]:
        try:
            with self._live.activity.request():
                yield
        except MachineLost as error:
            raise self._live.explain(error) from error
        if self._lost_before:
            self._told()


class _Heard:
    """What a command has written, with bounds on everything that is kept."""

    def __init__(self) -> None:
        self._streams = {1: _Ends(MODEL_BYTES), 2: _Ends(MODEL_BYTES)}
        self._output = bytearray()
        self._left_out = 0
        self._expected = 0

    def add(self, piece: Output) -> None:
        lost = piece.offset - self._expected
        self._expected = piece.offset + len(piece.data)
        if lost > 0:
            self._streams[piece.stream].add(_gap(lost))
            self._keep(_gap(lost))
        self._streams[piece.stream].add(piece.data)
        self._keep(piece.data)

    def _keep(self, data: bytes) -> None:
        kept = data[: max(0, OUTPUT_BYTES - len(self._output))]
        self._output += kept
        self._left_out += len(data) - len(kept)

    def result(self, code: int, error: str | None, timed_out: bool, duration_ms: int) -> CommandResult:
        if error:
            self._streams[2].add(f"{error}\n".encode())
            self._keep(f"{error}\n".encode())
        output = bytes(self._output) + (_gap(self._left_out) if self._left_out else b"")
        stdout, stderr = self._streams[1].text(), self._streams[2].text()
        return CommandResult(code, stdout, stderr, output, timed_out, duration_ms)


class _Ends:
    """The beginning and the end of a stream, together at most `limit` bytes: what is between is left out."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._first = bytearray()
        self._last = bytearray()
        self._passed = 0

    def add(self, data: bytes) -> None:
        self._passed += len(data)
        room = self._half - len(self._first)
        self._first += data[:room]
        self._last += data[max(0, room) :]
        if len(self._last) > 2 * self._half:
            del self._last[: -self._half]

    def text(self) -> str:
        last = bytes(self._last[-self._half :])
        left_out = self._passed - len(self._first) - len(last)
        middle = _gap(left_out) if left_out else b""
        return b"".join((bytes(self._first), middle, last)).decode(errors="replace")


def _gap(count: int) -> bytes:
    return f"\n[… {count} bytes left out …]\n".encode()


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), _PIECE):
        yield content[start : start + _PIECE]
