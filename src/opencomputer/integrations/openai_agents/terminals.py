"""Programs of a session that go on between two calls of the model: started, looked at, typed into."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agents.sandbox.errors import PtySessionNotFoundError
from agents.sandbox.session.pty_output import collect_pty_output
from agents.sandbox.session.pty_types import (
    PTY_PROCESSES_MAX,
    PtyExecUpdate,
    allocate_pty_process_id,
    clamp_pty_yield_time_ms,
    process_id_to_prune_from_meta,
    resolve_pty_write_yield_time_ms,
)

if TYPE_CHECKING:
    from opencomputer.sdk.exec_session import ExecSession
    from opencomputer.sdk.sandbox import Sandbox

_START_MILLISECONDS = 10_000
_WRITE_MILLISECONDS = 250
# A terminal around a program, which ends with its exit code.
_IN_TERMINAL = ("script", "-qefc")
# Of what nobody asks for the newest is kept: so many pieces, small ones put together.
_KEPT_PIECES = 64
_PIECE_BYTES = 16 << 10
# The framework recognises this text.
_NO_STDIN = "stdin is not available for this process"


@dataclass(frozen=True)
class Patience:
    """How long to wait for output, and how much of it the model wants."""

    seconds: float | None
    tokens: int | None


@dataclass(frozen=True)
class Start:
    """What to start. Only in a terminal, `tty`, can be typed."""

    command: Sequence[str]
    cwd: str
    env: dict[str, str]
    tty: bool


@dataclass
class _Process:
    tty: bool
    session: ExecSession | None = None
    chunks: deque[bytes] = field(default_factory=lambda: deque[bytes](maxlen=_KEPT_PIECES))
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    exit_code: int | None = None
    last_used: float = field(default_factory=time.monotonic)

    def output(self, data: bytes) -> None:
        if self.chunks and len(self.chunks[-1]) + len(data) <= _PIECE_BYTES:
            self.chunks[-1] += data
        else:
            self.chunks.append(data)
        self.news.set()

    def ended(self, code: int) -> None:
        self.exit_code = code
        self.news.set()

    def has_ended(self) -> bool:
        return self.exit_code is not None


class Terminals:
    """The running programs of one session, by the numbers that the model knows them by."""

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}

    async def start(self, sandbox: Sandbox, start: Start, patience: Patience) -> PtyExecUpdate:
        """Start a program, and return what it says in the time there is."""
        await self._make_room()
        process = _Process(start.tty)
        command = list(start.command)
        if start.tty:
            command = [*_IN_TERMINAL, shlex.join(command), "/dev/null"]
        else:
            command = ["/bin/sh", "-c", 'exec "$@" < /dev/null', "sh", *command]
        process.session = await sandbox.exec.start(
            command[0],
            args=command[1:],
            env=start.env,
            cwd=start.cwd,
            on_stdout=process.output,
            on_stderr=process.output,
            on_exit=process.ended,
            reconnect=True,
        )
        number = allocate_pty_process_id(set(self._processes))
        self._processes[number] = process
        milliseconds = clamp_pty_yield_time_ms(_milliseconds(patience, _START_MILLISECONDS))
        return await self._update(number, process, milliseconds, patience.tokens)

    async def write(self, number: int, text: str, patience: Patience) -> PtyExecUpdate:
        """Type into a program, or look at it with no text, and return what is new."""
        process = self._processes.get(number)
        if process is None or process.session is None:
            raise PtySessionNotFoundError(session_id=number)
        if text and not process.tty:
            raise RuntimeError(_NO_STDIN)
        if text:
            await process.session.send_stdin(text)
        process.last_used = time.monotonic()
        milliseconds = resolve_pty_write_yield_time_ms(
            yield_time_ms=_milliseconds(patience, _WRITE_MILLISECONDS), input_empty=not text
        )
        return await self._update(number, process, milliseconds, patience.tokens)

    async def end_all(self) -> None:
        """Kill what still runs."""
        processes, self._processes = list(self._processes.values()), {}
        await asyncio.gather(*(_end(process) for process in processes))

    async def _update(
        self, number: int, process: _Process, milliseconds: int, tokens: int | None
    ) -> PtyExecUpdate:
        output, token_count, closed = await collect_pty_output(
            output_chunks=process.chunks,
            output_lock=process.lock,
            output_notify=process.news,
            is_done=process.has_ended,
            yield_time_ms=milliseconds,
            max_output_tokens=tokens,
        )
        if closed:
            self._processes.pop(number, None)
            await _end(process)
        return PtyExecUpdate(
            process_id=None if closed else number,
            output=output,
            exit_code=process.exit_code if closed else None,
            original_token_count=token_count,
        )

    async def _make_room(self) -> None:
        if len(self._processes) < PTY_PROCESSES_MAX:
            return
        known = [(number, each.last_used, each.has_ended()) for number, each in self._processes.items()]
        number = process_id_to_prune_from_meta(known)
        if number is not None:
            await _end(self._processes.pop(number))


async def _end(process: _Process) -> None:
    if process.session is not None:
        try:
            await process.session.kill()
        finally:
            await process.session.close()


def _milliseconds(patience: Patience, default: int) -> int:
    return default if patience.seconds is None else int(patience.seconds * 1000)
