"""Running one command for a client: followed live, bounded in time and in what is kept of its output."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from opencomputer.sdk.http import httpx

if TYPE_CHECKING:
    from opencomputer.sdk.exec_session import ExecSession
    from opencomputer.sdk.sandbox import Sandbox

HEAD_BYTES = 8 << 10
TAIL_BYTES = 24 << 10
"""What of each stream is kept: how it began, and how it ended."""
PROGRESS_SECONDS = 3.0
_KILL = 9
_TIMED_OUT = 137
_GRACE_SECONDS = 10.0
_CLEANUP_SECONDS = 10.0

Progress = Callable[[float, str], Awaitable[None]]


@dataclass(frozen=True)
class Command:
    """A line for `sh`, and how it is run."""

    line: str
    timeout_seconds: int
    cwd: str | None = None
    environment: dict[str, str] | None = None


@dataclass
class BoundedOutput:
    """The beginning and the end of one stream, however long it gets."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    length: int = 0

    def add(self, data: bytes) -> None:
        self.length += len(data)
        room = HEAD_BYTES - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data
        if len(self.tail) > 2 * TAIL_BYTES:
            del self.tail[:-TAIL_BYTES]

    def text(self) -> str:
        """What is kept, and in its place how much is not."""
        del self.tail[:-TAIL_BYTES]
        left_out = self.length - len(self.head) - len(self.tail)
        gap = f"\n… {left_out} bytes left out …\n".encode() if left_out else b""
        return (bytes(self.head) + gap + bytes(self.tail)).decode("utf-8", errors="replace")

    def last_line(self) -> str:
        lines = bytes((self.tail or self.head)[-200:]).split(b"\n")
        said = [line for line in lines if line.strip()]
        return said[-1].decode("utf-8", errors="replace").strip() if said else ""


@dataclass(frozen=True)
class Outcome:
    """How a command ended. `exit_code` is None when that is not known."""

    exit_code: int | None
    stdout: str
    stderr: str
    timed_out: bool


async def run(sandbox: Sandbox, command: Command, progress: Progress) -> Outcome:
    """Run it to its end, telling from time to time that it goes on; when cancelled, it is killed.

    Raises what the SDK raises.
    """
    out, err = BoundedOutput(), BoundedOutput()
    # A session's input never ends, and some programs would wait for more.
    line = f"exec </dev/null\n{command.line}"
    session = await sandbox.exec.start(
        "sh",
        ["-c", line],
        env=command.environment,
        cwd=command.cwd,
        timeout=command.timeout_seconds,
        on_stdout=out.add,
        on_stderr=err.add,
        reconnect=True,
    )
    began = time.monotonic()
    try:
        code = await _end_of(session, out, progress, command.timeout_seconds)
    finally:
        # Whoever cancels this does so again at every wait that is not shielded. A server that is gone must
        # not take the place of the reason.
        with anyio.move_on_after(_CLEANUP_SECONDS, shield=True), suppress(httpx.HTTPError):
            await session.kill(_KILL)
        with anyio.move_on_after(_CLEANUP_SECONDS, shield=True):
            await session.close()
    timed_out = code == _TIMED_OUT and time.monotonic() - began >= command.timeout_seconds
    return Outcome(code if code >= 0 else None, out.text(), err.text(), timed_out)


async def _end_of(session: ExecSession, out: BoundedOutput, progress: Progress, timeout_seconds: int) -> int:
    began = time.monotonic()
    while True:
        done, _ = await asyncio.wait([session.done], timeout=PROGRESS_SECONDS)
        if done:
            return done.pop().result()
        elapsed = time.monotonic() - began
        if elapsed > timeout_seconds + _GRACE_SECONDS:
            await session.kill(_KILL)
            return _TIMED_OUT
        await progress(elapsed, out.last_line() or f"running for {elapsed:.0f} s")
