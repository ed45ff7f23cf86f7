"""Terminals of a machine."""

from __future__ import annotations

import secrets

import pytest

from opencomputer.server.contracts.machine import ExitStatus, ProcessKind, ProcessSpec, TerminalSize
from opencomputer.server.machines.machine import LinkedMachine
from tests.support.processes import finish, read_until, run, with_stdin

pytestmark = pytest.mark.anyio


def terminal(script: str, *, columns: int = 80, rows: int = 24) -> ProcessSpec:
    return ProcessSpec(
        id=secrets.token_hex(4),
        kind=ProcessKind.PTY,
        argv=("/bin/sh", "-c", script),
        terminal=TerminalSize(columns, rows),
    )


async def test_a_terminal_has_the_size_and_the_environment_asked_for(machine: LinkedMachine) -> None:
    finished = await run(machine, terminal("stty size; tty; echo $TERM $LANG", columns=100, rows=30))
    lines = finished.stdout.replace(b"\r", b"").split(b"\n")
    assert lines[0] == b"30 100"
    assert lines[1].startswith(b"/dev/pts/")
    assert lines[2] == b"xterm-256color C.UTF-8"


async def test_it_is_the_controlling_terminal(machine: LinkedMachine) -> None:
    finished = await run(machine, terminal("echo here >/dev/tty"))
    assert finished.stdout == b"here\r\n"


async def test_a_new_size_reaches_the_program(machine: LinkedMachine) -> None:
    spec = terminal("trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done")
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id, offset=None) as attachment:
        await read_until(attachment, b"ready")
        await machine.processes.resize(spec.id, TerminalSize(132, 43))
        assert b"43 132" in (await finish(attachment)).stdout


async def test_the_interrupt_key_reaches_the_foreground(machine: LinkedMachine) -> None:
    spec = terminal("echo ready; cat; echo not reached")
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id, offset=None) as attachment:
        await read_until(attachment, b"ready")
        await attachment.write(b"hello\n")
        await read_until(attachment, b"hello\r\nhello\r\n")  # the echo and the program's answer
        await attachment.write(b"\x03")
        finished = await finish(attachment)
    assert finished.exit == ExitStatus(130, 2)
    assert b"not reached" not in finished.stdout


async def test_end_of_input_is_the_end_of_transmission_key(machine: LinkedMachine) -> None:
    spec = terminal("echo ready; cat; echo over")
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id, offset=None) as attachment:
        await read_until(attachment, b"ready")
        await attachment.close_input()
        assert b"over" in (await finish(attachment)).stdout


async def test_a_new_reader_gets_what_nobody_has_read_and_replaces_the_old(machine: LinkedMachine) -> None:
    spec = terminal("echo first; read x; echo second; read x")
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id, offset=None) as old:
        await read_until(old, b"first\r\n")
        await old.write(b"1\n")
        await read_until(old, b"second\r\n")
        async with machine.processes.attach(spec.id, offset=None) as new:
            assert [item async for item in old] == []
            await new.write(b"2\n")
            finished = await finish(new)
    assert b"first" not in finished.stdout
    assert finished.exit == ExitStatus(0)


async def test_a_closed_terminal_takes_no_harm_from_late_calls(machine: LinkedMachine) -> None:
    spec = terminal("exit 3")
    await machine.processes.spawn(spec)
    async with machine.processes.attach(spec.id, offset=None) as attachment:
        await finish(attachment)
        await attachment.write(b"late")
        await machine.processes.resize(spec.id, TerminalSize(10, 10))
        await machine.processes.signal(spec.id, 9)
        await machine.processes.signal(spec.id, 9)
    assert (await machine.processes.get(spec.id)).exit == ExitStatus(3)


async def test_a_program_that_cannot_start_says_so_in_the_terminal(machine: LinkedMachine) -> None:
    spec = with_stdin(
        ProcessSpec("0000000a", ProcessKind.PTY, ("/no/such/shell",), terminal=TerminalSize(80, 24))
    )
    finished = await run(machine, spec)
    assert finished.exit.code == 127
    assert b"/no/such/shell" in finished.stdout
