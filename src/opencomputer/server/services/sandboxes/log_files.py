"""Looks what programs append to files under /var/log, while their machine is awake anyway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.logs import LogStore
from opencomputer.server.contracts.machine import FileEntry, Files
from opencomputer.server.domain.byte_ranges import ByteRange
from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.domain.log_lines import LineCutter, LogLine, LogSource
from opencomputer.server.services.sandboxes.live import LiveSandbox, LiveSandboxes
from opencomputer.server.services.sandboxes.log_writer import LogWriter

FOLDER = "/var/log"
_DEPTH = 2
_MOST_FILES = 64
_MOST_FOLDERS = 8
MOST_BYTES = 256 << 10
"""How much of one file is read at a time; of more, the newest."""
_LOOK_SECONDS = 5.0
"""Longer than an idle machine needs to freeze: looking must not keep it awake."""
_LOOK_WHILE_READ_SECONDS = 2.0
_TICK_SECONDS = 1.0
_PATIENCE_SECONDS = 5.0
_MARK = "f:"
"""The position that says that what was there at the beginning is known."""


@dataclass
class _Watched:
    """How far the files of one machine have been read."""

    positions: dict[str, int]
    looked_at: float = 0.0
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)
    due: bool = False


class LogFiles:
    """What was there before a sandbox began is no line of its log."""

    def __init__(self, live: LiveSandboxes, writer: LogWriter, store: LogStore, clock: Clock) -> None:
        self._live = live
        self._writer = writer
        self._store = store
        self._clock = clock
        self._watched: dict[LiveSandbox, _Watched] = {}

    async def begin(self, live: LiveSandbox) -> None:
        """Find out what is there, unless that was known of this sandbox before."""
        before = await self._store.positions(live.id)
        known = {key.removeprefix(_MARK): at for key, at in before.items() if key.startswith(_MARK)}
        watched = _Watched(known, self._clock.monotonic())
        if not known:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                found = await _files(live.machine.files)
            watched.positions = {"": 0} | {each.path: each.size_bytes for each in found}
            self._writer.add(live.id, (), {_MARK + path: at for path, at in watched.positions.items()})
        if not live.ended.is_set():
            self._watched[live] = watched

    def end(self, live: LiveSandbox) -> None:
        """The machine is let go."""
        self._watched.pop(live, None)

    def note_activity(self, live: LiveSandbox) -> None:
        """Something ran in it, so that it is worth a look."""
        if live in self._watched:
            self._watched[live].due = True

    async def keep(self) -> None:
        """Look again and again as long as this is not cancelled."""
        while True:
            await self._clock.sleep(_TICK_SECONDS)
            due = [live for live in self._live if self._is_due(live)]
            await asyncio.gather(*(self.look(live) for live in due))

    def _is_due(self, live: LiveSandbox) -> bool:
        watched = self._watched.get(live)
        if watched is None or watched.busy.locked():
            return False
        since = self._clock.monotonic() - watched.looked_at
        if watched.due:
            return since >= _TICK_SECONDS
        pause = _LOOK_WHILE_READ_SECONDS if self._writer.is_read(live.id) else _LOOK_SECONDS
        return not live.machine.frozen and since >= pause

    async def look(self, live: LiveSandbox) -> None:
        """Take down what was added since. What cannot be read now is read another time."""
        watched = self._watched.get(live)
        if watched is None:
            return
        async with watched.busy:
            watched.due = False
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await self._look(live, watched)
            except (OpenComputerError, TimeoutError):
                pass
            finally:
                watched.looked_at = self._clock.monotonic()

    async def _look(self, live: LiveSandbox, watched: _Watched) -> None:
        for entry in await _files(live.machine.files):
            position = watched.positions.get(entry.path, 0)
            if entry.size_bytes < position:
                position = 0  # begun anew
            if entry.size_bytes > position:
                await self._read(live, watched, entry, position)

    async def _read(self, live: LiveSandbox, watched: _Watched, entry: FileEntry, position: int) -> None:
        start = max(position, entry.size_bytes - MOST_BYTES)
        content = bytearray()
        part = ByteRange(start, entry.size_bytes - 1)
        async with live.machine.files.read(entry.path, part) as file:
            async for chunk in _at_most(file.chunks, MOST_BYTES):
                content += chunk
        cutter = LineCutter()
        lines = [] if b"\0" in content else cutter.feed(bytes(content))
        end = start + len(content) - cutter.pending
        watched.positions[entry.path] = end
        if start > position:
            self._writer.lose(live.id, 1)
        now = self._clock.now()
        found = [LogLine(now, LogSource.VAR_LOG, line, path=entry.path) for line in lines]
        self._writer.add(live.id, found, {_MARK + entry.path: end})


async def _at_most(chunks: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        yield chunk[:limit]
        limit -= len(chunk)
        if limit <= 0:
            return


async def _files(files: Files) -> Sequence[FileEntry]:
    """The files below /var/log, so far as they are not too many or too deep."""
    found: list[FileEntry] = []
    folders = [(FOLDER, 1)]
    for folder, depth in folders:
        try:
            entries = await files.list(folder)
        except OpenComputerError:
            if folder == FOLDER:
                raise
            continue
        found += [each for each in entries if not each.is_directory and each.path.startswith(FOLDER)]
        if depth < _DEPTH:
            room = _MOST_FOLDERS - len(folders)
            folders += [(each.path, depth + 1) for each in entries if each.is_directory][: max(0, room)]
    return found[:_MOST_FILES]
