"""The Python client's streams against the real log, with connections that are cut wherever it hurts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator

import httpx
import pytest

from opencomputer import AuthError, ClientSession, connect_session
from opencomputer.sdk.durable.connection import Connection, Options
from opencomputer.sdk.durable.endpoint import DurableEndpoint
from opencomputer.wire.ids import SessionId
from tests.support import session_rows as new
from tests.support.log_server import LogServer, log_server

pytestmark = pytest.mark.anyio

EVENTS = 600
READERS = 2
SECONDS = 60.0


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory, anyio_backend: str) -> AsyncGenerator[LogServer]:
    async with log_server(tmp_path_factory.mktemp("log") / "sessions.db") as made:
        yield made


class CutStream(httpx.AsyncByteStream):
    """A body that is cut off after some bytes, in the middle of whatever comes then."""

    def __init__(self, stream: AsyncIterator[bytes], close: httpx.AsyncByteStream, left: int) -> None:
        self._stream = stream
        self._close = close
        self._left = left

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield piece[: self._left]
            self._left -= len(piece)
            if self._left <= 0:
                raise httpx.ReadError("cut off")

    async def aclose(self) -> None:
        await self._close.aclose()


class Unreliable(httpx.AsyncBaseTransport):
    """Lets every connection live for some thousand bytes, and sometimes not at all, after the first."""

    def __init__(self, seed: int) -> None:
        self.opened = 0
        self._random = random.Random(seed)
        self._inner = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.opened += 1
        if self.opened > 1 and self._random.random() < 0.2:
            raise httpx.ConnectError("refused")
        response = await self._inner.handle_async_request(request)
        stream = response.stream
        assert isinstance(stream, httpx.AsyncByteStream)
        cut = CutStream(aiter(stream), stream, self._random.randrange(100, 20_000))
        return httpx.Response(response.status_code, headers=response.headers, stream=cut)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def read(server: LogServer, session_id: SessionId, seed: int) -> tuple[list[int], int]:
    transport = Unreliable(seed)

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(0.001)

    async with httpx.AsyncClient(transport=transport) as client:
        endpoint = DurableEndpoint(f"{server.url}/v3", server.token(session_id, seconds=3600))
        session = ClientSession(Connection(endpoint, Options(client=client, sleep=sleep)), session_id)
        seen: list[int] = []
        async for event in session.events():
            seen.append(event.seq)
            if event.seq >= EVENTS:
                break
    return seen, transport.opened


async def test_readers_whose_connections_are_cut_all_the_time_miss_nothing(server: LogServer) -> None:
    session = await server.session()
    claim = await server.running(session.id)
    readers = [asyncio.ensure_future(read(server, session.id, seed)) for seed in range(READERS)]
    written = await server.tables.log.head(session.id)
    while written < EVENTS:
        batch = [new.said(f"line {written + number} \u2028 of many" * 5) for number in range(10)]
        await server.tables.turns.append(claim, batch, new.at(2))
        written += len(batch)
    async with asyncio.timeout(SECONDS):
        for seen, opened in await asyncio.gather(*readers):
            assert seen[:EVENTS] == list(range(1, EVENTS + 1))
            assert opened > 5


async def test_a_stream_ends_when_its_token_does(server: LogServer) -> None:
    session = await server.session()
    seen: list[int] = []

    async def read_on(token: str) -> None:
        async with connect_session(session.id, token, base_url=server.url) as reader:
            async for event in reader.events():
                seen.append(event.seq)

    # A busy machine may take longer to connect than a token lasts.
    for seconds in (1, 4, 16):
        with pytest.raises(AuthError):
            await asyncio.wait_for(read_on(server.token(session.id, seconds=seconds)), SECONDS)
        if seen:
            break
    assert seen == [1]
