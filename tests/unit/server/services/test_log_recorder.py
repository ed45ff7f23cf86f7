"""What processes say becomes lines: once each, in bounds, over restarts, sleep and copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencomputer.server.contracts.machine import ProcessKind, ProcessSpec
from opencomputer.server.domain.log_lines import MAX_LINE_BYTES, LineCutter, LogQuery
from opencomputer.server.services.background import Background
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.log_writer import LINES_PER_SECOND
from opencomputer.server.services.sandboxes.recording import LogLimits, Recording
from opencomputer.server.stores.logs.files import FileLogStore
from tests.support.memory.processes import MemoryProcess, MemoryProcesses
from tests.unit.server.services.harness import Node, Process, settle

pytestmark = pytest.mark.anyio


def recording_of(process: Process, folder: Path, background: Background) -> Recording:
    store = FileLogStore(folder / "logs")
    return Recording(store, process.live, process.clock, background, LogLimits())


async def started(live: LiveSandbox, recording: Recording, name: str = "0000a001") -> MemoryProcess:
    processes = live.machine.processes
    assert isinstance(processes, MemoryProcesses)
    processes.program = _goes_on
    spec = ProcessSpec(name, ProcessKind.SESSION, ("sh", "-c", "x"), stdin=True)
    record = await processes.spawn(spec)
    assert recording.recorder is not None
    recording.recorder.began(live, record)
    await settle()
    return processes.by_id[name]


def _goes_on(_program: MemoryProcess) -> None:
    """It ends when the test says so."""


async def told(recording: Recording, live: LiveSandbox) -> list[str]:
    await settle()
    await recording.writer.flush()
    lines = await recording.store.find(live.id, LogQuery())
    return [line.line if line.exit_code is None else f"={line.exit_code}" for line in lines]


async def test_lines_of_both_streams_are_whole_however_they_come(node: Node, tmp_path: Path) -> None:
    async with node.process() as process, Background() as background:
        recording = recording_of(process, tmp_path, background)
        live = await process.live_one()
        program = await started(live, recording)
        program.output(1, b"on")
        program.output(2, b"err\n")
        program.output(1, b"e\r\ntw")
        program.output(1, b"o")
        program.end()
        assert await told(recording, live) == ["err", "one", "two", "=0"]


async def test_what_another_life_of_the_server_recorded_is_not_recorded_again(
    node: Node, tmp_path: Path
) -> None:
    async with node.process() as process:
        async with Background() as background:
            recording = recording_of(process, tmp_path, background)
            live = await process.live_one()
            program = await started(live, recording)
            program.output(1, b"first\n")
            program.output(1, b"half")
            assert await told(recording, live) == ["first"]
        async with Background() as background:
            again = recording_of(process, tmp_path, background)
            assert again.recorder is not None
            await again.recorder.resume(live)
            await settle()
            program.output(1, b" and half\n")
            program.end()
            assert await told(again, live) == ["first", "half and half", "=0"]


async def test_what_falls_out_of_the_scrollback_is_told(node: Node, tmp_path: Path) -> None:
    async with node.process() as process, Background() as background:
        recording = recording_of(process, tmp_path, background)
        live = await process.live_one()
        program = await started(live, recording)
        program.output(1, b"a\n")
        program.output(1, b"z\n", skip=1000)
        assert await told(recording, live) == ["a", "z"]
        assert [line.lost for line in await recording.store.find(live.id, LogQuery())] == [0, 1]


async def test_a_flood_is_cut_off_and_counted_and_its_end_is_told(node: Node, tmp_path: Path) -> None:
    async with node.process() as process, Background() as background:
        recording = recording_of(process, tmp_path, background)
        live = await process.live_one()
        program = await started(live, recording)
        for _ in range(10):
            program.output(1, b"x\n" * LINES_PER_SECOND)
        program.end()
        await settle(30)
        await recording.writer.flush()
        lines = await recording.store.find(live.id, LogQuery(limit=100_000))
        assert lines[-1].exit_code == 0
        assert len(lines) + sum(line.lost for line in lines) == 10 * LINES_PER_SECOND + 1


@pytest.mark.parametrize("size", [1, 7, 4096, 100_000])
def test_a_cutter_holds_no_more_than_a_line_and_loses_nothing(size: int) -> None:
    text = b"short\n" + b"y" * (3 * MAX_LINE_BYTES) + b"\nlast"
    cutter, lines = LineCutter(), list[str]()
    for start in range(0, len(text), size):
        lines += cutter.feed(text[start : start + size])
        assert cutter.pending <= MAX_LINE_BYTES
    lines += cutter.rest()
    assert "".join(lines).encode() == text.replace(b"\n", b"")
    assert (lines[0], lines[-1]) == ("short", "last")
