"""Connections to programs of one machine, over its link. The guest dials, and only inside its machine."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from opencomputer.inside.guest.protocol import JsonObject, ProtocolError
from opencomputer.server.domain.errors import GuestFault, OpenComputerError, ProgramFault
from opencomputer.server.machines.dozing import Dozing
from opencomputer.server.machines.faults import error_in
from opencomputer.server.machines.link import Link
from opencomputer.server.machines.wire import RefusingSink, Wire

WINDOW = 512 * 1024
_DIAL_SECONDS = 20.0
_PIECE = 64 * 1024
_SMALL = 4 * 1024
"""Pieces up to here are gathered: a program that sends one byte at a time costs no object for each."""


@asynccontextmanager
async def dialled(link: Link, dozing: Dozing, port: int) -> AsyncGenerator[LinkConnection]:
    """A connection to whatever listens on `port`. It does not outlive the link's own connection."""
    async with dozing.awake():
        connection = LinkConnection(link)
        fields: JsonObject = {"port": port, "window": WINDOW}
        wire, stream, _ = await link.open("dial", fields, connection, seconds=_DIAL_SECONDS)
        connection.bind(wire, stream)
        try:
            yield connection
        finally:
            wire.cancel(stream)


class LinkConnection(RefusingSink):
    """Implements `Connection`. Each side stays within a window of what the other has taken."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._wire: Wire | None = None
        self._stream = 0
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._pieces: deque[bytes | bytearray] = deque()
        self._received = 0
        self._taken = 0
        self._told = 0
        self._sent = 0
        self._acknowledged = 0
        self._ended = False
        self._over = False
        self._error: OpenComputerError | None = None

    def bind(self, wire: Wire, stream: int) -> None:
        self._wire, self._stream = wire, stream

    # The contract

    async def read(self) -> bytes:
        while not self._pieces and not self._ended:
            self._arrived.clear()
            await self._arrived.wait()
        if self._pieces:
            piece = self._pieces.popleft()
            self._acknowledge(len(piece))
            return bytes(piece)
        if self._error is not None:
            raise self._error
        return b""

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), _PIECE):
            piece = data[start : start + _PIECE]
            while not self._over and self._sent + len(piece) - self._acknowledged > WINDOW:
                self._room.clear()
                await self._room.wait()
            if self._over:
                raise self._error or ProgramFault()
            self._sent += len(piece)
            if self._wire is not None:
                self._wire.send_data(self._stream, piece)

    async def end(self) -> None:
        if self._wire is not None and not self._over:
            self._wire.send_end(self._stream)

    # Frames from the guest

    def on_data(self, data: bytes) -> None:
        if self._ended:
            raise ProtocolError("data after the last")
        self._received += len(data)
        if self._received - self._told > WINDOW:
            raise ProtocolError("more data than allowed")
        if not data:
            self._ended = True
        elif len(data) > _SMALL:
            self._pieces.append(data)
        elif self._pieces and isinstance(self._pieces[-1], bytearray) and len(self._pieces[-1]) < _PIECE:
            self._pieces[-1] += data
        else:
            self._pieces.append(bytearray(data))
        self._arrived.set()

    def on_credit(self, total: int) -> None:
        if total > self._sent:
            raise ProtocolError("bytes acknowledged that were never sent")
        self._acknowledged = max(self._acknowledged, total)
        self._room.set()

    def on_end(self, fields: JsonObject) -> None:
        self._finish(error_in(fields))

    def on_lost(self) -> None:
        self._finish(self._link.failure or GuestFault("The connection to the machine was interrupted."))

    def _finish(self, error: OpenComputerError | None) -> None:
        self._ended = self._over = True
        self._error = error
        self._arrived.set()
        self._room.set()

    def _acknowledge(self, count: int) -> None:
        self._taken += count
        if self._taken - self._told >= WINDOW // 4 and self._wire is not None:
            self._told = self._taken
            self._wire.send_credit(self._stream, self._told)
