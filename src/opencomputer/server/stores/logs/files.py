"""Two files a sandbox: one that grows, and the one before it. When it is full, the older one is forgotten."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from opencomputer.server.contracts.logs import LogBatch
from opencomputer.server.domain.log_lines import LogLine, LogQuery
from opencomputer.server.stores.logs.records import (
    Contents,
    command_record,
    line_record,
    positions_record,
)
from opencomputer.wire.ids import SandboxId

FILE_BYTES = 4 << 20
_OPEN_LOGS = 2000
"""How many logs are remembered so that they need not be read before something is added."""


@dataclass
class _Log:
    """What is known of one sandbox's log without reading it."""

    number: int = 0
    file: int = 1
    size: int = 0
    positions: dict[str, int] = field(default_factory=dict[str, int])
    commands: set[str] = field(default_factory=set[str])


class FileLogStore:
    """Implements LogStore."""

    def __init__(self, folder: Path, *, file_bytes: int = FILE_BYTES) -> None:
        self._folder = folder
        self._file_bytes = file_bytes
        self._logs: OrderedDict[SandboxId, _Log] = OrderedDict()
        self._writing = asyncio.Lock()

    async def append(self, sandbox_id: SandboxId, batch: LogBatch) -> Sequence[LogLine]:
        async with self._writing:
            return await asyncio.to_thread(self._append, sandbox_id, batch)

    async def find(self, sandbox_id: SandboxId, query: LogQuery) -> Sequence[LogLine]:
        return await asyncio.to_thread(self._find, sandbox_id, query)

    async def positions(self, sandbox_id: SandboxId) -> Mapping[str, int]:
        async with self._writing:
            return dict((await asyncio.to_thread(self._opened, sandbox_id)).positions)

    async def prune(self, before: datetime, *, keep_bytes: int) -> int:
        async with self._writing:
            return await asyncio.to_thread(self._prune, before, keep_bytes)

    def _append(self, sandbox_id: SandboxId, batch: LogBatch) -> Sequence[LogLine]:
        log = self._opened(sandbox_id)
        folder = self._folder_of(sandbox_id)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if log.size >= self._file_bytes:
            self._begin_file(folder, log)
        numbered = [replace(line, number=log.number + index + 1) for index, line in enumerate(batch.lines)]
        content = b"".join(self._records(log, numbered))
        _apply(log.positions, batch.positions)
        if batch.positions:
            content += positions_record(batch.positions)
        try:
            with _file(folder, log.file).open("ab") as file:
                file.write(content)
        except OSError:
            del self._logs[sandbox_id]  # what of it is there is seen when it is read again
            raise
        log.size += len(content)
        log.number += len(numbered)
        return numbered

    def _records(self, log: _Log, lines: Sequence[LogLine]) -> Iterator[bytes]:
        if log.size == 0:
            yield positions_record(log.positions)
        for line in lines:
            if line.exec_id is not None and line.exec_id not in log.commands:
                log.commands.add(line.exec_id)
                yield command_record(line.exec_id, line.command)
            yield line_record(line)

    def _begin_file(self, folder: Path, log: _Log) -> None:
        _file(folder, log.file - 1).unlink(missing_ok=True)
        log.file += 1
        log.size = 0
        log.commands.clear()

    def _opened(self, sandbox_id: SandboxId) -> _Log:
        log = self._logs.get(sandbox_id)
        if log is None:
            log = self._logs[sandbox_id] = _read_state(self._folder_of(sandbox_id))
        self._logs.move_to_end(sandbox_id)
        if len(self._logs) > _OPEN_LOGS:
            self._logs.popitem(last=False)
        return log

    def _find(self, sandbox_id: SandboxId, query: LogQuery) -> Sequence[LogLine]:
        found: list[LogLine] = []
        for number in reversed(_numbers(self._folder_of(sandbox_id))):
            with suppress(FileNotFoundError):  # meanwhile too old
                content = _file(self._folder_of(sandbox_id), number).read_bytes()
                # Of what is just being written, only whole lines.
                whole = content[: content.rfind(b"\n") + 1]
                found[:0] = [line for line in Contents(whole).lines() if query.wants(line)]
            if len(found) >= query.limit:
                break
        return found[-query.limit :]

    def _prune(self, before: datetime, keep_bytes: int) -> int:
        folders = sorted(self._survey(), key=lambda each: each.changed, reverse=True)
        kept = pruned = 0
        for each in folders:
            kept += each.size
            if kept > keep_bytes or each.changed < before.timestamp():
                kept -= each.size
                pruned += 1
                self._logs.pop(SandboxId(each.path.name), None)
                shutil.rmtree(each.path, ignore_errors=True)
        return pruned

    def _survey(self) -> Iterator[_Folder]:
        with suppress(FileNotFoundError):
            for path in self._folder.iterdir():
                with suppress(FileNotFoundError):
                    found = [each.stat() for each in path.iterdir()]
                    times = [each.st_mtime for each in found]
                    yield _Folder(path, sum(each.st_size for each in found), max(times, default=0.0))

    def _folder_of(self, sandbox_id: SandboxId) -> Path:
        return self._folder / os.path.basename(sandbox_id)


@dataclass(frozen=True)
class _Folder:
    path: Path
    size: int
    changed: float


def _file(folder: Path, number: int) -> Path:
    return folder / f"{number}.jsonl"


def _numbers(folder: Path) -> list[int]:
    try:
        names = [path.stem for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if name.isdecimal())


def _read_state(folder: Path) -> _Log:
    numbers = _numbers(folder)
    if not numbers:
        return _Log()
    path = _file(folder, numbers[-1])
    content = path.read_bytes()
    size = content.rfind(b"\n") + 1
    if size != len(content):
        os.truncate(path, size)  # the server ended while it wrote the last line
    contents = Contents(content[:size])
    number = max((line.number for line in contents.lines()), default=0)
    if number == 0 and len(numbers) > 1:
        older = Contents(_file(folder, numbers[-2]).read_bytes())
        number = max((line.number for line in older.lines()), default=0)
    return _Log(number, numbers[-1], size, contents.positions, set(contents.commands))


def _apply(positions: dict[str, int], changes: Mapping[str, int | None]) -> None:
    for key, position in changes.items():
        if position is None:
            positions.pop(key, None)
        else:
            positions[key] = position
