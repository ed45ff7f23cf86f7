"""The composed machine: it sleeps when it may and wakes for each call."""

from __future__ import annotations

import pytest

from opencomputer.server.contracts.driver import Limits
from opencomputer.server.machines.machine import LinkedMachine
from tests.support.host_guest import HostGuest, linked_machine
from tests.support.processes import read_until, run, shell, with_stdin
from tests.support.real_clock import RealClock
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


async def test_an_idle_machine_freezes_and_wakes_for_the_next_call(
    machine: LinkedMachine, running: HostGuest
) -> None:
    await run(machine, shell("true"))
    await eventually(lambda: running.frozen)
    assert (await run(machine, shell("echo awake"))).stdout == b"awake\n"
    await machine.rest()
    assert running.frozen
    await machine.files.make_directory("folder")
    assert [entry.name for entry in await machine.files.list(".")] == ["folder"]


async def test_a_machine_with_a_process_does_not_rest(machine: LinkedMachine, running: HostGuest) -> None:
    spec = shell("sleep 300")
    await machine.processes.spawn(spec)
    await machine.rest()
    assert not running.frozen
    await machine.processes.signal(spec.id, 9)
    async with machine.processes.attach(spec.id) as attachment:
        _ = [item async for item in attachment]
    await machine.rest()
    assert running.frozen


async def test_a_background_process_keeps_the_machine_awake(
    machine: LinkedMachine, running: HostGuest
) -> None:
    await run(machine, shell("setsid sleep 300 >/dev/null 2>&1 &"))
    await machine.rest()
    assert not running.frozen


async def test_an_attachment_keeps_the_machine_awake(machine: LinkedMachine, running: HostGuest) -> None:
    spec = with_stdin(shell("echo hi; read x"))
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id) as attachment:
        await read_until(attachment, b"hi\n")
        await machine.rest()
        assert not running.frozen


async def test_a_new_server_thaws_what_it_adopts(machine: LinkedMachine, running: HostGuest) -> None:
    await machine.rest()
    await machine.detach()
    assert running.frozen
    async with linked_machine(running, RealClock()) as adopted:
        assert await adopted.processes.list() == []


async def test_stopping_twice_is_fine(machine: LinkedMachine) -> None:
    await machine.stop()
    await machine.stop()
    assert machine.lost


async def test_a_machine_that_rests_can_be_given_another_size(
    machine: LinkedMachine, running: HostGuest
) -> None:
    """Its guest is told, too; one of an older server, which cannot be told, is no hindrance."""
    await machine.rest()
    await machine.resize(Limits(memory_bytes=8 << 30, cpu_percent=200, disk_bytes=1 << 30))
    assert (await run(machine, shell("echo awake"))).stdout == b"awake\n"
