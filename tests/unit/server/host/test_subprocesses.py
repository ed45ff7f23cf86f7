"""Running other programs."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from opencomputer.server.host.processes import reference
from opencomputer.server.host.subprocesses import MAX_OUTPUT_BYTES, CommandTimedOut, run, run_async


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_a_failure_is_a_result() -> None:
    done = run(["sh", "-c", "echo out; echo err >&2; exit 3"], deadline_seconds=5)
    assert (done.exit_code, done.output) == (3, "out\nerr\n")


def test_input_is_passed_on() -> None:
    assert run(["cat"], deadline_seconds=5, stdin=b"words").output == "words"


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        run(["/nowhere/program"], deadline_seconds=5)


def test_the_deadline_ends_the_program_and_what_it_started() -> None:
    begin = time.monotonic()
    with pytest.raises(CommandTimedOut):
        run(["sh", "-c", "sleep 600 & sleep 600"], deadline_seconds=0.1)
    assert time.monotonic() - begin < 60


def test_output_is_cut_at_a_cap() -> None:
    done = run(["head", "-c", str(MAX_OUTPUT_BYTES * 2), "/dev/zero"], deadline_seconds=10)
    assert len(done.output) == MAX_OUTPUT_BYTES


def test_nothing_is_inherited_by_accident() -> None:
    read, write = os.pipe()
    try:
        os.set_inheritable(write, True)
        listing = run(["sh", "-c", "ls /proc/self/fd"], deadline_seconds=5).output.split()
    finally:
        os.close(read)
        os.close(write)
    assert str(write) not in listing or int(listing[-1]) <= 3


@pytest.mark.anyio
async def test_cancelling_ends_the_program(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    script = f"echo $$ > {mark}.new; mv {mark}.new {mark}; sleep 60"
    running = asyncio.ensure_future(run_async(["sh", "-c", script], deadline_seconds=60))
    await eventually(mark.exists)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    pid = int(mark.read_text())
    await eventually(lambda: reference(pid) is None)


@pytest.mark.anyio
async def test_the_asynchronous_deadline_holds_too() -> None:
    with pytest.raises(CommandTimedOut):
        await run_async(["sleep", "60"], deadline_seconds=0.05)
    assert (await run_async(["echo", "x"], deadline_seconds=5)).output == "x\n"


async def eventually(holds: Callable[[], bool]) -> None:
    for _ in range(500):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to be")
