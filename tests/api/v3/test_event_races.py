"""Readers that come and go, and slow ones, while somebody writes as fast as it goes."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from opencomputer.server.domain.sessions.events import EventFilter, Level
from opencomputer.server.domain.sessions.session import Claim
from opencomputer.wire.ids import SessionId
from tests.support import session_rows as new
from tests.support.log_server import LogServer, log_server, told
from tests.support.rounds import rounds

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncGenerator[LogServer]:
    async with log_server(Path(tmp_path_factory.mktemp("log")) / "sessions.db") as made:
        yield made


async def _write(server: LogServer, claim: Claim, count: int, *, pad: int = 0, seed: int = 0) -> None:
    """Batches of whatever size, one after the other."""
    chosen, left = random.Random(seed), count
    while left:
        size = min(left, chosen.choice([1, 1, 2, 7, 40]))
        level = chosen.choice(list(Level))
        batch = [new.said("x" * pad, level=level) for _ in range(size)]
        await server.tables.turns.append(claim, batch, new.at(1))
        left -= size


async def _read_in_pieces(server: LogServer, session: SessionId, last: int, seed: int) -> list[int]:
    """Reconnect all the time, with whatever was seen last."""
    chosen, seen = random.Random(seed), list[int]()
    while not seen or seen[-1] < last:
        position = str(seen[-1]) if seen else "0"
        wanted = chosen.choice([1, 2, 30, 300])
        async with server.stream(session, {"Last-Event-ID": position}) as answer:
            async for event in told(answer):
                seen.append(event["seq"])
                wanted -= 1
                if wanted == 0 or event["seq"] == last:
                    break
    return seen


async def test_readers_that_reconnect_all_the_time_miss_nothing(server: LogServer) -> None:
    session = await server.session()
    claim = await server.running(session.id)
    count = rounds(500)
    last = count + 2
    async with asyncio.timeout(60):
        *seen, _ = await asyncio.gather(
            *(_read_in_pieces(server, session.id, last, seed) for seed in range(5)),
            _write(server, claim, count),
        )
    for each in seen:
        assert each == list(range(1, last + 1))


async def test_from_every_seq_on_the_next_one_comes_next(server: LogServer) -> None:
    session = await server.session()
    claim = await server.running(session.id)
    count = rounds(150)
    last = count + 2
    writing = asyncio.create_task(_write(server, claim, count, seed=1))

    async def first_after(seq: int, wanted: EventFilter) -> None:
        with server.log.reading(session.id, wanted, seq) as reader:
            expected, lines = seq + 1, await reader.next()
            while not lines:
                await reader.wait(5)
                lines = await reader.next()
            if wanted == EventFilter():
                assert [line.event.seq for line in lines] == list(range(expected, expected + len(lines)))
            between = await server.tables.log.read(session.id, wanted, after=seq, limit=1)
            assert lines[0].event.seq == between[0].seq

    async with asyncio.timeout(60):
        await asyncio.gather(*(first_after(seq, EventFilter()) for seq in range(last)))
        await asyncio.gather(*(first_after(seq, EventFilter(type="agent.*")) for seq in range(0, last, 7)))
        await writing


async def test_filtered_readers_see_exactly_what_they_want(server: LogServer) -> None:
    session = await server.session()
    claim = await server.running(session.id)
    seen: dict[Level, list[int]] = {level: [] for level in Level}

    async def follow(level: Level) -> None:
        async with server.stream(session.id, level=level.value) as answer:
            async for event in told(answer):
                seen[level].append(event["seq"])
                if event["body"].get("text") == "the end":
                    return

    async with asyncio.timeout(60):
        following = [asyncio.create_task(follow(level)) for level in Level]
        await _write(server, claim, rounds(500), seed=2)
        await server.tables.turns.append(claim, [new.said("the end")], new.at(2))
        await asyncio.gather(*following)
    for level in Level:
        log = await server.tables.log.read(session.id, EventFilter(level), after=0, limit=5000)
        assert seen[level] == [event.seq for event in log]


async def test_a_slow_reader_harms_nobody_and_misses_nothing(server: LogServer) -> None:
    session = await server.session()
    claim = await server.running(session.id)
    last = 1500 + 2
    address = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=2**16)
    key = server.client.headers["X-API-Key"]
    path = f"/v3/sessions/{session.id}/events?stream=sse"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\n\r\n".encode())
    try:
        async with asyncio.timeout(60):
            assert b"200" in await reader.readline()
            # It reads no more. 12 MB are written meanwhile, far more than any buffer takes.
            quick = asyncio.create_task(_read_in_pieces(server, session.id, last, 3))
            await _write(server, claim, 1500, pad=8000, seed=3)
            assert await quick == list(range(1, last + 1))
            seqs: list[int] = []
            while not seqs or seqs[-1] < last:
                line = await reader.readline()
                if line.startswith(b"data: "):
                    # A chunk of the transfer may end amid a line; its own line follows then.
                    while not line.endswith(b"}\n"):
                        line = line.rstrip(b"\r\n") + await _next_chunk(reader)
                    seqs.append(json.loads(line[6:])["seq"])
            assert seqs == list(range(1, last + 1))
    finally:
        writer.close()


async def _next_chunk(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readline()
    assert int(size.strip() or b"0", 16) >= 0
    return await reader.readline()
