"""Saving a machine: the user's processes are held, calls wait, and nobody notices more than that."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from opencomputer.inside.guest.protocol import JsonObject
from opencomputer.server.contracts.driver import Stillness
from opencomputer.server.contracts.machine import Identity, ProcessKind, TerminalSize
from opencomputer.server.domain.errors import GuestFault, MachineLost, SnapshotRefused
from opencomputer.server.machines.link import Link
from opencomputer.server.machines.machine import LinkedMachine
from tests.support.host_guest import HostGuest, linked_machine
from tests.support.processes import finish, read_until, run, shell, with_stdin
from tests.support.real_clock import RealClock
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

TARGET = Path("/nowhere/saved")


@pytest.fixture
async def sleeper(machine: LinkedMachine, home: Path) -> int:
    """The number of a process that runs in the background."""
    await run(machine, shell("setsid sh -c 'echo $$ > pid; exec sleep 300' > /dev/null 2>&1 < /dev/null &"))
    await eventually(lambda: (home / "pid").exists() and (home / "pid").read_text().strip())
    return int((home / "pid").read_text())


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("memory", [True, False])
async def test_processes_are_held_while_it_is_saved_and_go_on_after(
    machine: LinkedMachine, running: HostGuest, sleeper: int, memory: bool
) -> None:
    states: list[bool] = []

    async def look() -> None:
        states.append(is_stopped(sleeper))

    running.while_still = look
    await machine.save(TARGET, memory=memory)
    assert states == [True]
    assert not is_stopped(sleeper)


class SaidLink:
    """A link to a guest that answers everything alike."""

    def __init__(self, answer: JsonObject) -> None:
        self._answer = answer

    @asynccontextmanager
    async def apart(self, _farewell: str, **_: object) -> AsyncGenerator[JsonObject]:
        yield self._answer

    async def call(self, *_: object, **__: object) -> JsonObject:
        return self._answer

    async def close(self, _error: Exception) -> None:
        pass


@pytest.mark.parametrize(
    ("answer", "connected"), [({"connections": 0}, False), ({"connections": 2}, True), ({"held": 3}, True)]
)
async def test_a_saving_is_told_of_connections_to_elsewhere(
    running: HostGuest, answer: JsonObject, connected: bool
) -> None:
    """Guests of older servers do not say: there may be some then."""
    machine = LinkedMachine(running, cast("Link", SaidLink(answer)), RealClock())
    try:
        await machine.save(TARGET)
        assert running.stillness == Stillness(connected=connected)
    finally:
        await machine.detach()


async def test_a_strange_answer_saves_nothing(running: HostGuest) -> None:
    machine = LinkedMachine(running, cast("Link", SaidLink({"connections": "x"})), RealClock())
    try:
        with pytest.raises(GuestFault):
            await machine.save(TARGET)
    finally:
        await machine.detach()


async def test_a_process_that_the_user_stopped_stays_stopped(
    machine: LinkedMachine, running: HostGuest, sleeper: int
) -> None:
    os.kill(sleeper, signal.SIGSTOP)
    await eventually(lambda: is_stopped(sleeper))
    await machine.save(TARGET)
    assert is_stopped(sleeper)
    os.kill(sleeper, signal.SIGCONT)
    await eventually(lambda: not is_stopped(sleeper))


async def test_processes_go_on_when_a_saving_fails_or_is_given_up(
    machine: LinkedMachine, running: HostGuest, sleeper: int
) -> None:
    async def refuse() -> None:
        raise SnapshotRefused("an open file")

    async def hang() -> None:
        await asyncio.Event().wait()

    running.while_still = refuse
    with pytest.raises(SnapshotRefused):
        await machine.save(TARGET)
    assert not is_stopped(sleeper)
    running.while_still = hang
    saving = asyncio.ensure_future(machine.save(TARGET))
    await eventually(lambda: is_stopped(sleeper))
    saving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await saving
    assert not is_stopped(sleeper)


async def test_processes_go_on_when_the_caller_gives_up_while_a_slow_guest_holds_them(
    machine: LinkedMachine, running: HostGuest, sleeper: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing what is not yet on the disk is a part of holding, and may take longer than we like to wait."""
    monkeypatch.setattr("opencomputer.server.machines.machine._UNSURE_SECONDS", 0.05)
    os.kill(running.pid, signal.SIGSTOP)
    saving = asyncio.ensure_future(machine.save(TARGET))
    await asyncio.wait([saving], timeout=0.2)
    saving.cancel()
    await asyncio.wait([saving], timeout=0.5)
    gave_up = saving.done()
    os.kill(running.pid, signal.SIGCONT)
    with pytest.raises(asyncio.CancelledError):
        await saving
    assert not gave_up
    assert not is_stopped(sleeper)


async def test_processes_go_on_when_the_caller_gives_up_at_the_very_end(
    machine: LinkedMachine, running: HostGuest, sleeper: int
) -> None:
    written = asyncio.Event()

    async def write() -> None:
        written.set()
        os.kill(running.pid, signal.SIGSTOP)  # so that letting go takes its time

    running.while_still = write
    saving = asyncio.ensure_future(machine.save(TARGET))
    await written.wait()
    await asyncio.sleep(0.05)
    saving.cancel()
    await asyncio.sleep(0.05)
    os.kill(running.pid, signal.SIGCONT)
    with pytest.raises(asyncio.CancelledError):
        await saving
    assert not is_stopped(sleeper)


async def test_calls_wait_and_what_is_attached_goes_on(machine: LinkedMachine, running: HostGuest) -> None:
    ready, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        ready.set()
        await go_on.wait()

    running.while_still = wait
    spec = with_stdin(shell("echo before; read x; echo got $x"))
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id, counted=True) as attachment:
        await read_until(attachment, b"before\n")
        saving = asyncio.ensure_future(machine.save(TARGET))
        await ready.wait()
        call = asyncio.ensure_future(run(machine, shell("echo answered")))
        done, _ = await asyncio.wait([call], timeout=0.3)
        assert not done
        go_on.set()
        await saving
        assert (await call).stdout == b"answered\n"
        await attachment.write(b"input\n")
        assert (await finish(attachment)).stdout == b"got input\n"


async def test_no_process_can_be_started_between_the_hold_and_the_saving(
    machine: LinkedMachine, running: HostGuest, home: Path
) -> None:
    seen: list[list[str]] = []

    async def look() -> None:
        for _ in range(2):
            seen.append(sorted(os.listdir(home)))
            await asyncio.sleep(0.1)  # time in which it would be started

    running.while_still = look
    before = [asyncio.ensure_future(run(machine, shell(f"touch mark-{number}"))) for number in range(8)]
    saving = asyncio.ensure_future(machine.save(TARGET))
    after = [asyncio.ensure_future(run(machine, shell(f"touch mark-{number}"))) for number in range(8, 16)]
    await asyncio.gather(saving, *before, *after)
    assert seen[0] == seen[1]
    assert len(seen[0]) < len(os.listdir(home)) == 16


async def test_a_shell_does_not_see_that_its_jobs_were_held(
    machine: LinkedMachine, running: HostGuest
) -> None:
    spec = replace(
        shell("x"),
        kind=ProcessKind.PTY,
        argv=("bash", "--norc", "--noprofile"),
        stdin=True,
        terminal=TerminalSize(80, 24),
    )
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id) as attachment:
        await attachment.write(b"sleep 301 & sleep 302 | cat & echo ready''; sleep 1; jobs; echo en''d\n")
        await read_until(attachment, b"ready\r")
        for _ in range(5):
            await machine.save(TARGET)
        said = await read_until(attachment, b"end\r")
        assert b"Stopped" not in said
        assert said.count(b"Running") == 2


async def test_a_machine_that_is_not_to_go_on_is_held_until_it_does(
    machine: LinkedMachine, running: HostGuest, sleeper: int
) -> None:
    await machine.save(TARGET, go_on=False)
    assert is_stopped(sleeper)
    call = asyncio.ensure_future(run(machine, shell("echo answered")))
    done, _ = await asyncio.wait([call], timeout=0.3)
    assert not done
    await machine.go_on()
    assert not is_stopped(sleeper)
    assert (await call).stdout == b"answered\n"
    await machine.go_on()


async def test_calls_that_wait_for_a_machine_that_is_stopped_end(
    machine: LinkedMachine, running: HostGuest
) -> None:
    await machine.save(TARGET, go_on=False)
    call = asyncio.ensure_future(run(machine, shell("true")))
    await asyncio.sleep(0.05)
    await machine.stop()
    with pytest.raises(MachineLost):
        await call


async def test_an_identity_lets_held_processes_go_on(
    machine: LinkedMachine, running: HostGuest, sleeper: int
) -> None:
    """As in a machine that was started from the memory of a held one."""
    seen: list[bool] = []

    async def look() -> None:
        await machine.detach()
        seen.append(is_stopped(sleeper))
        async with linked_machine(running, RealClock()) as other:
            await other.identify(Identity("sb-1", "host", "0" * 32, "new token", b"x", {}))
        seen.append(is_stopped(sleeper))

    running.while_still = look
    with pytest.raises(Exception, match="stopping"):
        await machine.save(TARGET)
    assert seen == [True, False]


async def test_the_next_server_releases_what_an_earlier_one_held(
    machine: LinkedMachine, running: HostGuest, sleeper: int
) -> None:
    await machine.save(TARGET, go_on=False)
    await machine.detach()
    assert is_stopped(sleeper)
    async with linked_machine(running, RealClock()) as adopted:
        await adopted.release()
        assert not is_stopped(sleeper)


async def test_files_of_a_machine_whose_guest_is_stuck_are_saved_and_its_memory_is_not(
    machine: LinkedMachine, running: HostGuest, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[bool] = []
    monkeypatch.setattr("opencomputer.server.machines.machine._UNSURE_SECONDS", 0.3)
    monkeypatch.setattr("opencomputer.server.machines.machine.REQUEST_SECONDS", 0.3)
    monkeypatch.setattr("opencomputer.server.machines.link._PARTING_SECONDS", 0.3)

    async def note() -> None:
        saved.append(True)

    running.while_still = note
    os.kill(running.pid, signal.SIGSTOP)
    try:
        await machine.save(TARGET, memory=False)
        with pytest.raises(GuestFault):
            await machine.save(TARGET)
    finally:
        os.kill(running.pid, signal.SIGCONT)
    assert saved == [True]


async def test_a_generation_is_told_to_later_processes(machine: LinkedMachine) -> None:
    identity = Identity("sb-1", "host", "0" * 32, "new token", b"x", {"A": "b"}, generation=7, workdir="here")
    await machine.files.make_directory("here")
    await machine.identify(identity)
    finished = await run(machine, shell('echo "$OPENCOMPUTER_GENERATION $A $(basename "$PWD")"'))
    assert finished.stdout == b"7 b here\n"
