"""How processes are ended: by signals, by time, by the last reader's leaving; and nothing survives."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from opencomputer.server.contracts.machine import Attachment, ExitStatus
from opencomputer.server.machines.machine import LinkedMachine
from tests.support.processes import finish, read_until, run, shell, with_stdin
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

BREAKAWAY = """
yes >/dev/null & sleep 300 & (setsid sleep 300 &) ; setsid sh -c 'sleep 300 & env -i setsid sleep 300' &
echo started; wait
"""
"""Children, grandchildren whose parent died, sessions of their own, and one without our mark."""


def sleepers(folder: Path) -> list[int]:
    """Processes whose working directory is `folder`."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if (entry / "cwd").readlink() == folder:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


async def started(attachment: Attachment) -> None:
    await read_until(attachment, b"started\n")


async def test_killing_takes_the_whole_tree(machine: LinkedMachine, home: Path) -> None:
    spec = shell(BREAKAWAY)
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id) as attachment:
        await started(attachment)
        await eventually(lambda: len(sleepers(home)) >= 6)
        await machine.processes.signal(spec.id, 9)
        assert (await finish(attachment)).exit == ExitStatus(137, 9, "killed")
    await eventually(lambda: sleepers(home) == [])


async def test_another_signal_goes_to_the_group(machine: LinkedMachine) -> None:
    spec = shell("trap 'echo caught; exit 5' INT; echo started; while :; do sleep 0.05; done")
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id) as attachment:
        await started(attachment)
        await machine.processes.signal(spec.id, 2)
        finished = await finish(attachment)
    assert (finished.stdout, finished.exit) == (b"caught\n", ExitStatus(5))


async def test_signalling_an_ended_process_does_nothing(machine: LinkedMachine) -> None:
    spec = shell("exit 4")
    await run(machine, spec)
    await machine.processes.signal(spec.id, 9)
    assert (await machine.processes.get(spec.id)).exit == ExitStatus(4)


async def test_a_timeout_takes_the_whole_tree(machine: LinkedMachine, home: Path) -> None:
    begun = time.monotonic()
    finished = await run(machine, replace(shell(BREAKAWAY), timeout_seconds=0.5))
    assert finished.exit == ExitStatus(137, 9, "timeout")
    assert finished.stdout == b"started\n"
    assert time.monotonic() - begun < 60
    await eventually(lambda: sleepers(home) == [])


async def test_a_process_lingers_after_its_last_reader_and_is_ended(machine: LinkedMachine) -> None:
    spec = replace(shell("echo started; sleep 300"), linger_seconds=0.2)
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id, counted=True) as attachment:
        await started(attachment)
        assert (await machine.processes.get(spec.id)).attached == 1
    async with machine.processes.attach(spec.id) as attachment:
        assert (await finish(attachment)).exit == ExitStatus(137, 9, "disconnected")


async def test_a_new_reader_ends_the_lingering(machine: LinkedMachine) -> None:
    spec = with_stdin(replace(shell("echo started; read x; echo alive"), linger_seconds=0.3))
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id, counted=True) as attachment:
        await started(attachment)
    async with machine.processes.attach(spec.id, counted=True) as attachment:
        await asyncio.sleep(0.5)  # longer than it would have lingered
        await attachment.write(b"\n")
        assert (await finish(attachment)).stdout == b"started\nalive\n"


async def test_a_process_that_never_had_a_reader_does_not_linger(machine: LinkedMachine) -> None:
    spec = replace(shell("sleep 0.4; echo done"), linger_seconds=0.1)
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id) as uncounted:
        assert (await finish(uncounted)).stdout == b"done\n"
