"""Bytes in both directions: plain, and inside TLS. With backpressure, and without a task of their own."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

_HIGH_WATER = 128 * 1024
_RECORDS = 64 * 1024
_CLOSING_SECONDS = 10.0


class StreamLost(Exception):
    """The other end is gone, or was never what it should be."""


class Stream(Protocol):
    """One end of a connection."""

    async def receive(self) -> bytes:
        """The next bytes; none when the other end has finished. Raises StreamLost."""
        ...

    def unread(self, data: bytes) -> None:
        """Have these bytes received again, before all others."""
        ...

    def send(self, data: bytes) -> None:
        """Hand over bytes. Never waits: `flush` does. Raises StreamLost."""
        ...

    async def flush(self) -> None:
        """Wait until so much has gone out that more may be sent. Raises StreamLost."""
        ...

    def end(self) -> None:
        """Say that nothing more will be sent. Idempotent."""
        ...

    def close(self) -> None:
        """Close when what was sent is gone. Idempotent."""
        ...


class PlainStream(asyncio.Protocol):
    """A TCP connection. `touched` is called whenever bytes have arrived."""

    def __init__(self, opened: Callable[[PlainStream], None] | None = None) -> None:
        self._opened = opened
        self._transport: asyncio.Transport | None = None
        self._arrived: deque[bytes] = deque()
        self._size = 0
        self._finished = False
        self._lost: StreamLost | None = None
        self._paused_reading = False
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []
        self._paused_writing = False
        self._ended = False
        self._closing: asyncio.TimerHandle | None = None
        self.touched: Callable[[], None] = _nothing
        self.received_bytes = 0
        self.sent_bytes = 0

    @property
    def transport(self) -> asyncio.Transport:
        if self._transport is None:
            raise StreamLost("not connected")
        return self._transport

    @property
    def over(self) -> bool:
        """Whether the other end has finished, or is gone."""
        return self._finished or self._lost is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._opened is not None:
            self._opened(self)

    def data_received(self, data: bytes) -> None:
        self._arrived.append(data)
        self._size += len(data)
        self.received_bytes += len(data)
        if self._size > _HIGH_WATER and not self._paused_reading:
            self._paused_reading = True
            self.transport.pause_reading()
        self.touched()
        self._wake_reader()

    def eof_received(self) -> bool:
        self._finished = True
        self._wake_reader()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = StreamLost(str(exc) if exc else "the connection is closed")
        if self._closing is not None:
            self._closing.cancel()
        self._wake_reader()
        self.resume_writing()

    def pause_writing(self) -> None:
        self._paused_writing = True

    def resume_writing(self) -> None:
        self._paused_writing = False
        writers, self._writers = self._writers, []
        for writer in writers:
            if not writer.done():
                writer.set_result(None)

    async def receive(self) -> bytes:
        while not self._arrived:
            if self._finished:
                return b""
            if self._lost is not None:
                raise self._lost
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        data = self._arrived.popleft()
        self._size -= len(data)
        if self._paused_reading and self._size <= _HIGH_WATER // 2:
            self._paused_reading = False
            if self._lost is None:
                self.transport.resume_reading()
        return data

    def unread(self, data: bytes) -> None:
        if data:
            self._arrived.appendleft(data)
            self._size += len(data)

    async def wait_for_bytes(self) -> None:
        """Return when `receive` would not wait."""
        with contextlib.suppress(StreamLost):
            self.unread(await self.receive())

    def send(self, data: bytes) -> None:
        if self._lost is not None:
            raise self._lost
        self.transport.write(data)
        self.sent_bytes += len(data)

    async def flush(self) -> None:
        while self._paused_writing and self._lost is None:
            writer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._writers.append(writer)
            await writer
        if self._lost is not None:
            raise self._lost

    def end(self) -> None:
        if not self._ended and self._lost is None and self._transport is not None:
            self._ended = True
            with contextlib.suppress(OSError, RuntimeError):
                self._transport.write_eof()

    def close(self) -> None:
        if self._transport is not None and self._lost is None and self._closing is None:
            self._transport.close()
            # Who reads nothing must not keep us for ever.
            self._closing = asyncio.get_running_loop().call_later(_CLOSING_SECONDS, self.abort)

    def abort(self) -> None:
        """Cut it at once, whatever was still to be sent."""
        if self._transport is not None:
            self._transport.abort()

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


class TlsStream:
    """TLS over a plain stream: as the server with a context of ours, or as the client of `server_name`."""

    def __init__(self, plain: PlainStream, context: ssl.SSLContext, server_name: str | None = None) -> None:
        self._plain = plain
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_name is None, server_hostname=server_name
        )
        self._again: list[bytes] = []
        self._ended = False

    @property
    def over(self) -> bool:
        return self._plain.over

    async def shake_hands(self) -> None:
        """Raises ssl.SSLError when the other end is not to be trusted, or does not trust us; StreamLost."""
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                await self._take_more()
            except ssl.SSLError:
                # With what is wrong said, as far as the protocol can say it.
                with contextlib.suppress(StreamLost):
                    self._pass_on()
                raise
        self._pass_on()

    async def receive(self) -> bytes:
        if self._again:
            return self._again.pop()
        while True:
            data, finished = self._decrypted()
            if data or finished:
                return data
            if self._outgoing.pending:
                # Whoever asks for answers of the protocol itself has to read them.
                self._pass_on()
                await self._plain.flush()
            more = await self._plain.receive()
            if not more:
                return b""
            self._incoming.write(more)

    def unread(self, data: bytes) -> None:
        if data:
            self._again.append(data)

    def send(self, data: bytes) -> None:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[self._tls.write(rest) :]
        except ssl.SSLError as error:
            raise StreamLost(str(error)) from error
        self._pass_on()

    async def flush(self) -> None:
        await self._plain.flush()

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            with contextlib.suppress(ssl.SSLError, StreamLost):
                self._tls.unwrap()
            with contextlib.suppress(StreamLost):
                self._pass_on()

    def close(self) -> None:
        self.end()
        self._plain.close()

    def _decrypted(self) -> tuple[bytes, bool]:
        """What can be read now, several records at once, and whether that is all there will be."""
        pieces: list[bytes] = []
        size = 0
        try:
            while size < _RECORDS:
                piece = self._tls.read(_RECORDS)
                if not piece:
                    return b"".join(pieces), True
                pieces.append(piece)
                size += len(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            return b"".join(pieces), True
        except ssl.SSLError as error:
            raise StreamLost(str(error)) from error
        return b"".join(pieces), False

    async def _take_more(self) -> None:
        self._pass_on()
        await self._plain.flush()
        more = await self._plain.receive()
        if not more:
            raise StreamLost("closed during the handshake")
        self._incoming.write(more)

    def _pass_on(self) -> None:
        if self._outgoing.pending:
            self._plain.send(self._outgoing.read())


def _nothing() -> None:
    pass


async def relay(left: Stream, right: Stream) -> None:
    """Pass bytes on both ways until both ends have finished. Raises StreamLost when one is gone."""
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_pump(left, right))
            both.create_task(_pump(right, left))
    except* StreamLost as lost:
        raise StreamLost(str(lost.exceptions[0])) from None


async def _pump(source: Stream, target: Stream) -> None:
    while data := await source.receive():
        target.send(data)
        await target.flush()
    target.end()
