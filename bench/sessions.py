"""The log of durable sessions: how soon a reader has an event, how many a second, and what watching costs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bench.processes import processor_seconds, resident_bytes
from bench.report import Result
from bench.samples import Distribution, Figure, Target

_READERS = 4
_PAUSE_SECONDS = 0.02
_FLOOD_SECONDS = 8.0
_BATCH = 50
_QUIET_SECONDS = 20.0
_DEADLINE_SECONDS = 120.0
_AT_ONCE = 50
_LONGEST_LINE = 2**20


@dataclass(frozen=True)
class SessionsOptions:
    count: int = 300
    idle: int = 1000


@dataclass(frozen=True)
class _Log:
    """The process that is measured."""

    process: asyncio.subprocess.Process
    url: str
    key: str
    pid: int

    async def do(self, what: str, **options: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": what, **options}).encode() + b"\n")
        return await _line(self.process)


@dataclass
class _Reader:
    """A stream of one session's events."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def event(self) -> dict[str, Any]:
        return json.loads(await self._line(b"data: "))

    async def seq(self) -> int:
        return int(await self._line(b"id: "))

    async def _line(self, start: bytes) -> bytes:
        while line := await self.reader.readline():
            if line.startswith(start):
                return line[len(start) :]
        raise ConnectionError("the stream has ended")


def measure(options: SessionsOptions) -> Result:
    result = Result("sessions", {"count": options.count, "idle": options.idle, "batch": _BATCH})
    asyncio.run(_measure(options, result))
    return result


async def _measure(options: SessionsOptions, result: Result) -> None:
    async with _log() as log, asyncio.timeout(_DEADLINE_SECONDS + options.idle / 10):
        made = await log.do("sessions", count=options.idle)
        result.figures.append(Figure("sessions admitted a second", options.idle / made["seconds"], "/s"))
        await _latency(log, made["ids"][0], options.count, result)
        await _throughput(log, made["ids"][1], 1, result)
        await _throughput(log, made["ids"][2], _BATCH, result)
        await _idle(log, made["ids"][3:], result)


async def _latency(log: _Log, session: str, count: int, result: Result) -> None:
    async with _readers(log, [session] * _READERS) as readers:
        writing = asyncio.create_task(log.do("pace", session=session, count=count, pause=_PAUSE_SECONDS))
        samples = await asyncio.gather(*(_delays(each, count) for each in readers))
        await writing
    delays = [delay for each in samples for delay in each]
    result.samples["append to reader"] = delays
    spread = Distribution.of(delays)
    result.figures += [
        Figure("append to reader: p50", spread.p50, "ms", Target(10)),
        Figure("append to reader: p95", spread.p95, "ms", Target(30)),
    ]


async def _delays(reader: _Reader, count: int) -> list[float]:
    delays: list[float] = []
    while len(delays) < count:
        event = await reader.event()
        if "began" in event["refs"]:
            delays.append((time.monotonic() - event["refs"]["began"]) * 1000)
    return delays


async def _throughput(log: _Log, session: str, batch: int, result: Result) -> None:
    """Appending in batches of this size, and how soon the last of the readers has everything."""
    async with _readers(log, [session] * _READERS) as readers:
        began = time.monotonic()
        counts = [_Count() for _ in readers]
        following = [
            asyncio.create_task(_follow(reader, count)) for reader, count in zip(readers, counts, strict=True)
        ]
        done = await log.do("flood", session=session, seconds=_FLOOD_SECONDS, batch=batch)
        for count in counts:
            await count.reached(done["count"] + 2)
        read_seconds = time.monotonic() - began
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
    target = Target(5000, at_least=True) if batch > 1 else None
    name = f"by {batch}" if batch > 1 else "one by one"
    result.figures += [
        Figure(f"appended {name}, {_READERS} readers", done["count"] / done["seconds"], "/s", target),
        Figure(f"read by each of {_READERS}, appended {name}", done["count"] / read_seconds, "/s"),
    ]
    result.failures += [f"a reader missed events: {count.faults}" for count in counts if count.faults]


class _Count:
    """Up to where a reader is, and what came in no order."""

    def __init__(self) -> None:
        self.seq = 0
        self.faults: list[int] = []
        self._changed = asyncio.Event()

    def saw(self, seq: int) -> None:
        if seq != self.seq + 1:
            self.faults.append(seq)
        self.seq = seq
        self._changed.set()

    async def reached(self, seq: int) -> None:
        while self.seq < seq:
            self._changed.clear()
            await self._changed.wait()


async def _follow(reader: _Reader, count: _Count) -> None:
    while True:
        count.saw(await reader.seq())


async def _idle(log: _Log, sessions: list[str], result: Result) -> None:
    """What it costs that every session is watched and nothing happens."""
    before = resident_bytes(log.pid)
    async with _readers(log, sessions) as readers:
        await asyncio.gather(*(reader.seq() for reader in readers))
        growth = resident_bytes(log.pid) - before
        spent, began = processor_seconds(log.pid), time.monotonic()
        await asyncio.sleep(_QUIET_SECONDS)
        share = (processor_seconds(log.pid) - spent) / (time.monotonic() - began)
    result.figures += [
        Figure(f"memory of {len(sessions)} watched, idle sessions", growth / 2**20, "MiB"),
        Figure(f"processor of {len(sessions)} watched, idle sessions", share * 100, "% of one"),
    ]


@asynccontextmanager
async def _readers(log: _Log, sessions: list[str]) -> AsyncGenerator[list[_Reader]]:
    """A stream for each, from the first event on."""
    async with AsyncExitStack() as stack:
        opened: list[_Reader] = []
        for start in range(0, len(sessions), _AT_ONCE):
            some = sessions[start : start + _AT_ONCE]
            opened += await asyncio.gather(*(_open(log, session, stack) for session in some))
        yield opened


async def _open(log: _Log, session: str, stack: AsyncExitStack) -> _Reader:
    address = urlsplit(log.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=_LONGEST_LINE)
    stack.callback(writer.close)
    path = f"/v3/sessions/{session}/events?stream=sse&after=0"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: bench\r\nX-API-Key: {log.key}\r\n\r\n".encode())
    return _Reader(reader, writer)


@asynccontextmanager
async def _log() -> AsyncGenerator[_Log]:
    with tempfile.TemporaryDirectory(prefix="opencomputer-bench-") as folder:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.session_writer", f"{folder}/sessions.db"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            limit=_LONGEST_LINE,
        )
        try:
            yield _Log(process, **await _line(process))
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _line(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise RuntimeError("the process that is measured has ended")
    return json.loads(line)
