"""Brains as processes of this host, and the server's own client for them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import opencomputer.inside
from opencomputer.server.contracts.runtimes import BrainLine, BrainRequest
from opencomputer.server.domain.errors import NothingListens, ProgramFault
from opencomputer.server.runtimes.launching import brain_program
from opencomputer.server.services.sessions.brain_client import DialledBrain

INSIDE = opencomputer.inside.__path__[0]
START_SECONDS = 60.0
PORT = {"OC_BRAIN_PORT": "0"}
"""Has a brain listen on a free port, which it names on standard error."""


class LoopbackConnection:
    """A `Connection` to a port of this host."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(1 << 16)
        except ConnectionError as error:
            raise ProgramFault from error

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        with suppress(ConnectionError):
            await self._writer.drain()

    async def end(self) -> None:
        self._writer.write_eof()


def brain_at(port: int) -> DialledBrain:
    """The server's client for a brain that listens on `port`, whatever port it believes in."""

    @asynccontextmanager
    async def dial(_: int) -> AsyncGenerator[LoopbackConnection]:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError as error:
            raise NothingListens from error
        try:
            yield LoopbackConnection(reader, writer)
        finally:
            writer.close()

    return DialledBrain(dial)


class BrainProcess:
    """A running brain, and the client for it."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.brain = brain_at(port)

    async def ready(self) -> None:
        async with asyncio.timeout(START_SECONDS):
            while not (await self.brain.health()).ready:
                pass

    async def turn(self, request: BrainRequest) -> list[BrainLine]:
        """All lines of one request."""
        async with self.brain.turn(request) as lines:
            return [line async for line in lines]


@asynccontextmanager
async def brain_process(
    command: Sequence[str], environment: Mapping[str, str], log: Path
) -> AsyncGenerator[BrainProcess]:
    """Start a brain, wait until it is ready, and kill it at the end. See PORT."""
    process, start = _start(command, environment, log)
    try:
        brain = BrainProcess(process, await asyncio.to_thread(_port, process, log, start))
        await brain.ready()
        yield brain
    finally:
        # The whole group: what entered a chroot on the way has left its parent's care with its user id.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.wait)


def _start(
    command: Sequence[str], environment: Mapping[str, str], log: Path
) -> tuple[subprocess.Popen[bytes], int]:
    with log.open("ab") as stderr:
        start = log.stat().st_size
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
        return process, start


def _port(process: subprocess.Popen[bytes], log: Path, start: int) -> int:
    while True:
        written = log.read_bytes()[start:]
        if b"listening on" in written and written.endswith(b"\n"):
            line = next(line for line in written.split(b"\n") if line.startswith(b"listening on"))
            return int(line.rpartition(b":")[2])
        if process.poll() is not None:
            raise AssertionError(f"the brain ended with {process.returncode}: {written!r}")
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.02)


def host_command(engine: str) -> Sequence[str]:
    """The command line of a brain on this host's own interpreter."""
    return brain_program(sys.executable, engine, programs=str(INSIDE)).argv


def host_environment() -> Mapping[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), **PORT}
