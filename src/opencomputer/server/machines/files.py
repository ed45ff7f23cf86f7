"""The files of one machine, over its link. No path is ever looked at here: the guest resolves them."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from opencomputer.inside.guest import protocol
from opencomputer.inside.guest.protocol import JsonObject, ProtocolError
from opencomputer.server.contracts.machine import FileContent, FileEntry
from opencomputer.server.domain.byte_ranges import ByteRange, Span
from opencomputer.server.domain.errors import GuestFault, InvalidInput, OpenComputerError
from opencomputer.server.machines.dozing import Dozing
from opencomputer.server.machines.faults import error_in
from opencomputer.server.machines.link import Link
from opencomputer.server.machines.wire import RefusingSink, Wire

WINDOW = 2 * 1024 * 1024
_OPEN_SECONDS = 60.0
_STALL_SECONDS = 120.0
"""How long the guest may leave a transfer without any progress."""
_REMOVE_SECONDS = 600.0
_COMMIT_SECONDS = 600.0
_MOST_ENTRIES = 200_000
_MOST_LISTING_BYTES = 64 * 1024 * 1024


class LinkFiles:
    """Implements `Files`."""

    def __init__(self, link: Link, dozing: Dozing) -> None:
        self._link = link
        self._dozing = dozing

    def read(self, path: str, part: ByteRange | None = None) -> AbstractAsyncContextManager[FileContent]:
        return self._read(path, part)

    async def write(self, path: str, chunks: AsyncIterator[bytes], *, size_hint: int | None = None) -> None:
        async with self._dozing.awake():
            upload = _Upload(self._link)
            wire, stream, _ = await self._link.open(
                "write_file", {"path": path, "size_hint": size_hint}, upload, seconds=_OPEN_SECONDS
            )
            try:
                async for chunk in chunks:
                    for start in range(0, len(chunk), protocol.MAX_PIECE):
                        await upload.send(wire, stream, chunk[start : start + protocol.MAX_PIECE])
                wire.send_end(stream)
                await upload.finished()
            finally:
                wire.cancel(stream)

    async def list(self, path: str) -> Sequence[FileEntry]:
        async with self._download("list_directory", {"path": path}) as (result, download):
            try:
                folder = protocol.text(result, "path")
                return await _parse_listing(folder, download)
            except (ProtocolError, ValueError, RecursionError) as error:
                raise GuestFault("the guest's listing cannot be read") from error

    async def make_directory(self, path: str) -> None:
        async with self._dozing.awake():
            await self._link.call("make_directory", {"path": path}, seconds=_OPEN_SECONDS)

    async def remove(self, path: str) -> None:
        async with self._dozing.awake():
            await self._link.call("remove", {"path": path}, seconds=_REMOVE_SECONDS)

    @asynccontextmanager
    async def _read(self, path: str, part: ByteRange | None) -> AsyncGenerator[FileContent]:
        fields: JsonObject = {"path": path, **_wanted(part)}
        async with self._download("read_file", fields) as (result, download):
            try:
                size = protocol.optional_integer(result, "size")
                # A guest of an earlier version knows nothing of parts, and begins at the beginning.
                start = protocol.optional_integer(result, "start") or 0
            except ProtocolError as error:
                raise GuestFault("the guest's answer cannot be read") from error
            if part is None or size is None:
                yield FileContent(size, _exactly(size, download.chunks()))
                return
            span = part.within(size)
            yield FileContent(size, _exactly(span.count, _cut(span, start, download.chunks())), span)

    @asynccontextmanager
    async def _download(
        self, operation: str, fields: JsonObject
    ) -> AsyncGenerator[tuple[JsonObject, _Download]]:
        async with self._dozing.awake():
            download = _Download(self._link)
            wire, stream, result = await self._link.open(
                operation, {**fields, "window": WINDOW}, download, seconds=_OPEN_SECONDS
            )
            download.bind(wire, stream)
            try:
                yield result, download
            finally:
                wire.cancel(stream)


class _Transfer(RefusingSink):
    """What both directions have in common: an end, an error, and a change to wait for."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._changed = asyncio.Event()
        self._ended = False
        self._error: OpenComputerError | None = None

    def on_end(self, fields: JsonObject) -> None:
        self._ended = True
        self._error = error_in(fields)
        self._changed.set()

    def on_lost(self) -> None:
        self._ended = True
        self._error = self._link.failure or GuestFault("The connection to the machine was interrupted.")
        self._changed.set()

    async def _change(self, seconds: float) -> None:
        self._changed.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError as error:
            raise GuestFault("the guest makes no progress with a file") from error


class _Download(_Transfer):
    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._wire: Wire | None = None
        self._stream = 0
        self._pieces: deque[bytes] = deque()
        self._received = 0
        self._taken = 0
        self._told = 0

    def bind(self, wire: Wire, stream: int) -> None:
        self._wire, self._stream = wire, stream

    def on_data(self, data: bytes) -> None:
        self._received += len(data)
        if not data or self._received - self._told > WINDOW:
            raise ProtocolError("more data than allowed")
        self._pieces.append(data)
        self._changed.set()

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                yield piece
                self._acknowledge(len(piece))
            if self._ended:
                break
            await self._change(_STALL_SECONDS)
        if self._error is not None:
            raise self._error

    def _acknowledge(self, count: int) -> None:
        self._taken += count
        if self._taken - self._told >= WINDOW // 4 and self._wire is not None:
            self._told = self._taken
            self._wire.send_credit(self._stream, self._told)


class _Upload(_Transfer):
    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._sent = 0
        self._written = 0

    def on_credit(self, total: int) -> None:
        if total > self._sent:
            raise ProtocolError("bytes acknowledged that were never sent")
        self._written = max(self._written, total)
        self._changed.set()

    async def send(self, wire: Wire, stream: int, piece: bytes) -> None:
        while not self._ended and self._sent + len(piece) - self._written > WINDOW:
            await self._change(_STALL_SECONDS)
        self._raise_if_ended()
        self._sent += len(piece)
        wire.send_data(stream, piece)

    async def finished(self) -> None:
        while not self._ended:
            await self._change(_COMMIT_SECONDS)
        if self._error is not None:
            raise self._error

    def _raise_if_ended(self) -> None:
        if self._ended:
            raise self._error or GuestFault("the guest ended a file before all of it was sent")


def _wanted(part: ByteRange | None) -> JsonObject:
    """What to ask the guest for: it knows the file's size, and we do not yet."""
    if part is None:
        return {}
    if part.first is None:
        return {"offset": -(part.last or 0)}
    return {"offset": part.first, "count": None if part.last is None else part.last - part.first + 1}


async def _cut(span: Span, start: int, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """`span` out of `chunks`, which begin at the byte `start` of the file."""
    if start > span.start:
        raise GuestFault("the guest leaves out some of a file")
    skip, left = span.start - start, span.count
    async for chunk in chunks:
        kept = chunk[skip : skip + left]
        skip, left = max(0, skip - len(chunk)), left - len(kept)
        if kept:
            yield kept
        if not left:
            return


async def _exactly(size: int | None, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Pass on `chunks`, which must be `size` bytes in all.

    It ends with the last byte: a client that has got all that was announced sends its next request on the
    same connection, which must not be cut by what becomes of the machine after that.
    """
    total = 0
    if size == 0:
        return
    async for chunk in chunks:
        total += len(chunk)
        if size is not None and total > size:
            raise GuestFault("the guest sends more of a file than it said")
        yield chunk
        if total == size:
            return
    if size is not None:
        raise GuestFault("the guest sends less of a file than it said")


async def _parse_listing(folder: str, download: _Download) -> Sequence[FileEntry]:
    entries: list[FileEntry] = []
    rest = b""
    total = 0
    async for chunk in download.chunks():
        total += len(chunk)
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            entries.append(_parse_entry(folder, json.loads(line)))
        if total > _MOST_LISTING_BYTES or len(entries) > _MOST_ENTRIES or len(rest) > protocol.MAX_PIECE:
            raise InvalidInput("The directory has too many entries to list.")
    return entries


def _parse_entry(folder: str, value: object) -> FileEntry:
    fields = protocol.as_object(value)
    name = protocol.text(fields, "n")
    if not name or "/" in name:
        raise ProtocolError("a name of a file cannot be read")
    return FileEntry(
        name=name,
        path=f"{folder.rstrip('/')}/{name}",
        is_directory=protocol.flag(fields, "d"),
        size_bytes=protocol.integer(fields, "s"),
    )
