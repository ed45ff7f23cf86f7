"""What tools can do in the hands, and within which bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from opencomputer.server.contracts.machine import ExitStatus
from opencomputer.server.contracts.runtimes import Hands
from opencomputer.server.domain.errors import FileMissing, InvalidInput, MachineLost
from opencomputer.server.services.background import Background
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.recording import Recording
from opencomputer.server.services.sessions.boxes_hands import MODEL_BYTES, OUTPUT_BYTES, SandboxHands
from tests.support.memory.machines import MemoryMachine
from tests.support.memory.processes import MemoryProcess
from tests.support.virtual_time import virtual_backend
from tests.unit.server.services.harness import Node, Process
from tests.unit.server.services.test_log_recorder import recording_of, told

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return virtual_backend()


class Scene:
    def __init__(self, process: Process, live: LiveSandbox, machine: MemoryMachine) -> None:
        self.served = process
        self.live = live
        self.machine = machine
        self.hands: Hands = SandboxHands(live, process.clock, None, lost_before=False, told=lambda: None)

    def will(self, act: Callable[[MemoryProcess], None]) -> None:
        self.machine.processes.program = act

    @property
    def process(self) -> MemoryProcess:
        return list(self.machine.processes.by_id.values())[-1]


@pytest.fixture
async def scene(tmp_path: Path, anyio_backend: object) -> AsyncGenerator[Scene]:
    node = Node(tmp_path)
    async with node.process() as process:
        live = await process.live_one()
        yield Scene(process, live, node.machine_of(live.sandbox))


async def test_a_command_runs_in_a_plain_shell_in_the_workspace(scene: Scene) -> None:
    def act(process: MemoryProcess) -> None:
        process.output(1, b"one\n")
        process.output(2, b"two\n")
        process.output(1, b"three\n")
        process.end(ExitStatus(3))

    scene.will(act)
    result = await scene.hands.run("make test", timeout_seconds=60)
    assert scene.process.spec.argv == ("bash", "-c", "make test")
    assert (scene.process.spec.cwd, scene.process.spec.timeout_seconds) == ("/workspace", 60)
    assert scene.process.spec.environment == {}
    assert (result.exit_code, result.stdout, result.stderr) == (3, "one\nthree\n", "two\n")
    assert (result.output, result.timed_out) == (b"one\ntwo\nthree\n", False)


async def test_a_command_that_takes_too_long_says_so(scene: Scene) -> None:
    scene.will(lambda process: process.end(ExitStatus(137, signal=9, reason="timeout")))
    result = await scene.hands.run("sleep 100", timeout_seconds=1)
    assert (result.timed_out, result.exit_code) == (True, 137)


async def test_a_program_that_cannot_be_started_is_a_result(scene: Scene) -> None:
    scene.will(lambda process: process.end(ExitStatus(127, error="bash: not found")))
    result = await scene.hands.run("ls", timeout_seconds=1)
    assert (result.exit_code, result.stderr) == (127, "bash: not found\n")


async def test_the_model_sees_both_ends_of_what_is_too_long(scene: Scene) -> None:
    def act(process: MemoryProcess) -> None:
        process.output(1, b"begin")
        for _ in range(40):
            process.output(1, b"x" * 10_000)
        process.output(1, b"end")
        process.end()

    scene.will(act)
    result = await scene.hands.run("yes", timeout_seconds=1)
    assert result.stdout.startswith("begin")
    assert result.stdout.endswith("end")
    assert f"{400_008 - MODEL_BYTES} bytes left out" in result.stdout
    assert len(result.stdout) < MODEL_BYTES + 100
    assert len(result.output) == 400_008


async def test_output_has_a_bound_and_gaps_are_marked(scene: Scene) -> None:
    def act(process: MemoryProcess) -> None:
        process.output(1, b"a" * OUTPUT_BYTES)
        process.output(1, b"bbb", skip=1000)
        process.end()

    scene.will(act)
    result = await scene.hands.run("yes", timeout_seconds=1)
    assert len(result.output) < OUTPUT_BYTES + 100
    assert b"bytes left out" in result.output[-60:]
    assert "1000 bytes left out" in result.stdout


async def test_a_command_that_is_given_up_is_killed(scene: Scene) -> None:
    scene.will(lambda process: None)
    running = asyncio.create_task(scene.hands.run("sleep 100", timeout_seconds=100))
    await asyncio.sleep(1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert scene.process.signals == [9]


async def test_losing_the_machine_is_told(scene: Scene) -> None:
    scene.will(lambda process: None)
    running = asyncio.create_task(scene.hands.run("sleep 100", timeout_seconds=100))
    await asyncio.sleep(1)
    scene.machine.die()
    with pytest.raises(MachineLost):
        await running


async def test_files_are_read_and_written_with_bounds(scene: Scene) -> None:
    await scene.hands.write("notes/a.txt", b"0123456789")
    await scene.hands.write("notes/empty", b"")
    assert await scene.hands.read("notes/a.txt", limit=4) == b"0123"
    assert await scene.hands.read("notes/a.txt", limit=100) == b"0123456789"
    assert await scene.hands.list("notes") == [
        {"name": "a.txt", "path": "notes/a.txt", "type": "file", "size": 10},
        {"name": "empty", "path": "notes/empty", "type": "file", "size": 0},
    ]
    with pytest.raises(FileMissing):
        await scene.hands.read("missing", limit=4)
    with pytest.raises(InvalidInput):
        await scene.hands.run("a\0b", timeout_seconds=1)


# Logs


@pytest.fixture
async def recording(scene: Scene, tmp_path: Path) -> AsyncGenerator[Recording]:
    async with Background() as background:
        made = recording_of(scene.served, tmp_path, background)
        scene.hands = SandboxHands(
            scene.live, scene.served.clock, made.recorder, lost_before=False, told=lambda: None
        )
        yield made


async def test_what_a_command_says_is_in_the_log_of_the_sandbox(scene: Scene, recording: Recording) -> None:
    scene.will(lambda process: process.output(1, b"one\ntw"))
    running = asyncio.create_task(scene.hands.run("make test", timeout_seconds=60))
    await asyncio.sleep(1)
    scene.process.output(2, b"oh\n")
    scene.process.output(1, b"o")
    scene.process.end(ExitStatus(3))
    result = await running
    assert (result.exit_code, result.stdout) == (3, "one\ntwo")
    assert await told(recording, scene.live) == ["one", "oh", "two", "=3"]


async def test_the_log_of_a_command_that_is_given_up_has_its_end(scene: Scene, recording: Recording) -> None:
    scene.will(lambda process: process.output(1, b"begun\nha"))
    running = asyncio.create_task(scene.hands.run("sleep 100", timeout_seconds=100))
    await asyncio.sleep(1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert await told(recording, scene.live) == ["begun", "ha", "=137"]
