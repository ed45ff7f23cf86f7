"""Reads standard input line by line, beside whatever else goes on."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator

MAX_LINE_BYTES = 64 << 20


class LineSplitter:
    """Cuts a stream into lines. A line longer than allowed becomes None, and the next one is whole again."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._pending = bytearray()
        self._skipping = False

    def push(self, piece: bytes) -> Iterator[bytes | None]:
        *ended, rest = piece.split(b"\n")
        for end in ended:
            self._pending += end
            yield None if self._too_long() else bytes(self._pending)
            self._pending.clear()
            self._skipping = False
        self._pending += rest
        if self._too_long():
            self._pending.clear()

    def flush(self) -> bytes:
        """The unfinished last line."""
        line = b"" if self._skipping else bytes(self._pending)
        self._pending.clear()
        return line

    def _too_long(self) -> bool:
        self._skipping = self._skipping or len(self._pending) > self._max_line_bytes
        return self._skipping


async def read_lines(descriptor: int) -> AsyncIterator[bytes | None]:
    """Yield lines until the end of input. None stands for a line that was too long."""
    # A thread, because standard input may be a plain file, which the event loop cannot wait for. It is a
    # daemon that reads the bare descriptor: stuck in there at the end, it holds no lock anybody waits for.
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        piece = b"-"
        while piece:
            try:
                piece = os.read(descriptor, 1 << 16)
            except OSError:
                piece = b""
            try:
                loop.call_soon_threadsafe(pieces.put_nowait, piece)
            except RuntimeError:
                return

    threading.Thread(target=read, name="standard-input", daemon=True).start()
    splitter = LineSplitter()
    while piece := await pieces.get():
        for line in splitter.push(piece):
            yield line
    if last := splitter.flush():
        yield last
