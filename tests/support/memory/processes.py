"""Processes that do what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Literal

from opencomputer.server.contracts.machine import (
    ExitStatus,
    Output,
    ProcessRecord,
    ProcessSpec,
    TerminalSize,
)
from opencomputer.server.domain.errors import MachineLost, NotFound, OpenComputerError


class MemoryProcess:
    """One process. The test writes its output and ends it."""

    def __init__(self, spec: ProcessSpec) -> None:
        self.spec = spec
        self.labels: dict[str, str] = dict(spec.labels)
        self.written = b""
        self.signals: list[int] = []
        self.size = spec.terminal
        self.attached = 0
        self.outputs: list[Output] = []
        self.exit: ExitStatus | None = None
        self.loss: OpenComputerError | None = None
        self._offset = 0
        self._changed = asyncio.Event()

    def copy(self) -> MemoryProcess:
        """The same process in a machine that goes on from a memory image."""
        copy = MemoryProcess(self.spec)
        copy.labels, copy.outputs, copy.exit = dict(self.labels), list(self.outputs), self.exit
        copy._offset = self._offset
        return copy

    @property
    def record(self) -> ProcessRecord:
        spec = self.spec
        return ProcessRecord(
            spec.id, spec.kind, spec.argv, 1_767_225_600.0, self.attached, self.exit, self.labels
        )

    def output(self, stream: Literal[1, 2], data: bytes, *, skip: int = 0) -> None:
        """Write; `skip` bytes before it fell out of the scrollback."""
        self._offset += skip
        self.outputs.append(Output(stream, self._offset, data))
        self._offset += len(data)
        self._changed.set()

    def end(self, status: ExitStatus | None = None) -> None:
        self.exit = status or ExitStatus(0)
        self._changed.set()

    def lose(self, error: OpenComputerError) -> None:
        self.loss = error
        self._changed.set()

    @property
    def end_offset(self) -> int:
        return self._offset

    async def read(self, start: int) -> AsyncIterator[Output | ExitStatus]:
        position = 0
        while True:
            while position < len(self.outputs):
                piece = self.outputs[position]
                position += 1
                if piece.offset >= start:
                    yield piece
            if self.exit is not None:
                yield self.exit
                return
            if self.loss is not None:
                raise self.loss
            self._changed.clear()
            await self._changed.wait()


class MemoryAttachment:
    def __init__(self, process: MemoryProcess, start: int) -> None:
        self._process = process
        self._start = start
        self._replay_end = process.end_offset

    @property
    def process(self) -> ProcessRecord:
        return self._process.record

    @property
    def replay_end(self) -> int:
        return self._replay_end

    def __aiter__(self) -> AsyncIterator[Output | ExitStatus]:
        return self._process.read(self._start)

    async def write(self, data: bytes) -> None:
        if self._process.exit is None:
            self._process.written += data

    async def close_input(self) -> None:
        return


class MemoryProcesses:
    """Implements Processes. `program` decides what a spawned process does; it ends at once by default."""

    def __init__(self) -> None:
        self.by_id: dict[str, MemoryProcess] = {}
        self.program: Callable[[MemoryProcess], None] = MemoryProcess.end
        self.lost = False

    async def spawn(self, spec: ProcessSpec) -> ProcessRecord:
        self._check()
        if spec.id not in self.by_id:
            process = self.by_id[spec.id] = MemoryProcess(spec)
            self.program(process)
        return self.by_id[spec.id].record

    @asynccontextmanager
    async def attach(
        self, process_id: str, *, offset: int | None = 0, counted: bool = False
    ) -> AsyncGenerator[MemoryAttachment]:
        process = self._find(process_id)
        process.attached += counted
        try:
            yield MemoryAttachment(process, offset or 0)
        finally:
            process.attached -= counted

    async def get(self, process_id: str) -> ProcessRecord:
        return self._find(process_id).record

    async def list(self) -> Sequence[ProcessRecord]:
        self._check()
        return [process.record for process in self.by_id.values()]

    async def signal(self, process_id: str, signal: int) -> None:
        process = self._find(process_id)
        process.signals.append(signal)
        if signal == 9:
            process.end(ExitStatus(137, signal=9, reason="killed"))

    async def resize(self, process_id: str, size: TerminalSize) -> None:
        self._find(process_id).size = size

    async def label(self, process_id: str, labels: Mapping[str, str]) -> None:
        self._find(process_id).labels |= labels

    def lose_all(self) -> None:
        self.lost = True
        for process in self.by_id.values():
            process.lose(MachineLost())

    def forget(self, process_id: str) -> None:
        """What the guest does when a process's retention is over."""
        del self.by_id[process_id]

    def _find(self, process_id: str) -> MemoryProcess:
        self._check()
        try:
            return self.by_id[process_id]
        except KeyError:
            raise NotFound("there is no such process") from None

    def _check(self) -> None:
        if self.lost:
            raise MachineLost


def with_id(spec: ProcessSpec, process_id: str) -> ProcessSpec:
    return replace(spec, id=process_id)
