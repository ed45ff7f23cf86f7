"""Copies of a saved machine are somebody else before any program in them runs on."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from opencomputer.server.clock import SystemClock
from opencomputer.server.contracts.machine import Machine, ProcessKind, ProcessSpec, TerminalSize
from opencomputer.server.drivers.gvisor.driver import GvisorDriver
from opencomputer.server.machines.launcher import Launcher
from tests.support.driver_harness import TOKEN, GvisorHarness
from tests.support.machine_shell import new_identity, open_machine, output
from tests.support.processes import read_until

pytestmark = [pytest.mark.anyio, pytest.mark.machines]

_WATCHER = (Path(__file__).parent / "held_program.py").read_text()
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_NAMES = f"hostname; cat /etc/hostname /etc/machine-id {_BOOT_ID} /run/opencomputer/generation"


def background(*argv: str) -> ProcessSpec:
    return ProcessSpec(secrets.token_hex(4), ProcessKind.SESSION, argv, user="root", stdin=True)


async def names_of(machine: Machine) -> list[str]:
    return (await output(machine, _NAMES, user="sandbox")).split("\n")


async def test_a_copy_has_names_of_its_own(harness: GvisorHarness) -> None:
    saved = harness.folder / "saved"
    identities = [new_identity(token=TOKEN, generation=number) for number in (5, 6, 7)]
    seen: list[list[str]] = []
    async with open_machine(harness) as machine:
        await machine.identify(identities[0])
        await machine.save(saved)
        seen.append(await names_of(machine))
        for identity in identities[1:]:
            async with open_machine(harness, harness.spec(saved=saved)) as copy:
                await copy.identify(identity)
                seen.append(await names_of(copy))
                variables = await output(copy, "echo $OPENCOMPUTER_SANDBOX_ID $OPENCOMPUTER_GENERATION")
                assert variables == f"{identity.sandbox_id} {identity.generation}"
    for names, identity in zip(seen, identities, strict=True):
        assert names == [
            identity.hostname,
            identity.hostname,
            identity.machine_id,
            identity.boot_id,
            str(identity.generation),
        ]


async def test_no_program_of_a_copy_runs_as_somebody_else(harness: GvisorHarness) -> None:
    """One that writes down who it is, five hundred times a second, never sees the old names again."""
    saved = harness.folder / "saved"
    async with open_machine(harness) as machine:
        old = new_identity(token=TOKEN)
        await machine.identify(old)
        await machine.processes.spawn(background("python3", "-c", _WATCHER))
        await until(lambda: wrote_more_than(machine, 5))
        await machine.save(saved)
    launcher = Launcher(harness.driver, SystemClock())
    spec = harness.spec(saved=saved)
    copy = await launcher.start(spec, guest_token=TOKEN)
    try:
        new = new_identity(token=TOKEN, generation=2)
        states = "cat /proc/[0-9]*/stat | grep -c ' (python3) T '"
        assert await output(copy, states) == "1"
        before = int(await output(copy, "wc -l < /root/seen"))
        assert int(await output(copy, "wc -l < /root/seen")) == before
        await copy.identify(new)
        await until(lambda: wrote_more_than(copy, before + 5))
        lines = (await output(copy, "cat /root/seen")).splitlines()
        expected = f"{new.hostname} {new.machine_id} {new.boot_id} {new.generation}"
        # One line may have been in the making: it has the names of both.
        assert set(lines[before + 1 :]) == {expected}
        assert old.hostname in lines[before - 1]
    finally:
        await copy.stop()


async def test_the_original_keeps_its_names_and_goes_on(harness: GvisorHarness) -> None:
    async with open_machine(harness) as machine:
        await machine.identify(new_identity(token=TOKEN))
        names = await names_of(machine)
        await machine.processes.spawn(background("python3", "-c", _WATCHER))
        await machine.save(harness.folder / "saved")
        before = int(await output(machine, "cat /root/seen 2>/dev/null | wc -l"))
        await until(lambda: wrote_more_than(machine, before + 5))
        assert await names_of(machine) == names


async def test_copies_draw_different_random_numbers_from_the_kernel(harness: GvisorHarness) -> None:
    saved = harness.folder / "saved"
    draw = "import os,sys\nfor line in sys.stdin: print(os.urandom(8).hex(), flush=True)"
    spec = background("python3", "-u", "-c", draw)
    drawn: set[bytes] = set()
    async with open_machine(harness) as machine:
        await machine.processes.spawn(spec)
        await machine.save(saved)
        drawn.add(await answer_of(machine, spec))
    for _ in range(2):
        async with open_machine(harness, harness.spec(saved=saved)) as copy:
            drawn.add(await answer_of(copy, spec))
    assert len(drawn) == 3


async def test_ssh_host_keys_are_made_anew_in_another_sandbox_only(harness: GvisorHarness) -> None:
    saved = harness.folder / "saved"
    fingerprints = "for k in /etc/ssh/ssh_host_*_key.pub; do ssh-keygen -l -f $k | cut -d' ' -f2; done"
    async with open_machine(harness) as machine:
        await output(machine, "ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key")
        await output(machine, "ssh-keygen -q -t ecdsa -N '' -f /etc/ssh/ssh_host_ecdsa_key")
        old = (await output(machine, fingerprints)).split()
        await machine.save(saved)
        assert (await output(machine, fingerprints)).split() == old
    async with open_machine(harness, harness.spec(saved=saved)) as copy:
        new = (await output(copy, fingerprints)).split()
        assert len(new) == 2
        assert not set(new) & set(old)
        assert await output(copy, "stat -c '%a %U' /etc/ssh/ssh_host_*_key") == "600 root\n600 root"
        await copy.identify(new_identity(token=TOKEN, copied=False))
        assert (await output(copy, fingerprints)).split() == new


async def test_a_sandbox_without_host_keys_gets_none(harness: GvisorHarness) -> None:
    saved = harness.folder / "saved"
    async with open_machine(harness) as machine:
        await machine.save(saved)
    async with open_machine(harness, harness.spec(saved=saved)) as copy:
        assert await output(copy, "ls /etc/ssh | grep -c host_ || true") == "0"


async def test_processes_start_in_the_folder_of_the_identity(harness: GvisorHarness) -> None:
    """Unless they are told another, or it is gone."""
    async with open_machine(harness) as machine:
        await output(machine, "mkdir /srv/app")
        await machine.identify(new_identity(token=TOKEN, workdir="/srv/app"))
        assert await output(machine, "pwd") == "/srv/app"
        told = ProcessSpec(secrets.token_hex(4), ProcessKind.RUN, ("pwd",), cwd="/usr")
        await machine.processes.spawn(told)
        async with machine.processes.attach(told.id) as attachment:
            assert await read_until(attachment, b"\n") == b"/usr\n"
        await output(machine, "rmdir /srv/app")
        assert await output(machine, "pwd", user="sandbox") == "/home/sandbox"


async def test_time_goes_on_and_never_back(harness: GvisorHarness) -> None:
    saved = harness.folder / "saved"
    spec = background(
        "python3",
        "-u",
        "-c",
        "import sys,time\nfor line in sys.stdin: print(time.time(), time.monotonic(), flush=True)",
    )
    async with open_machine(harness) as machine:
        await machine.processes.spawn(spec)
        first = [float(word) for word in (await answer_of(machine, spec)).split()]
        await machine.save(saved, go_on=False)
    await asyncio.sleep(1.5)  # the sandbox sleeps: the time that passes is what this is about
    async with open_machine(harness, harness.spec(saved=saved)) as copy:
        second = [float(word) for word in (await answer_of(copy, spec)).split()]
        assert abs(second[0] - time.time()) < 0.5
        assert second[0] - first[0] > 1.5
        assert second[1] >= first[1]


_ECHO = """
import select, socket
server = socket.create_server(("0.0.0.0", 8080))
print("ready", flush=True)
while True:
    connection, peer = server.accept()
    print("accepted", peer[0], flush=True)
    try:
        while data := connection.recv(100):
            connection.sendall(data)
        print("over: closed", flush=True)
    except OSError as error:
        print("over: broken", type(error).__name__, flush=True)
"""


async def test_connections_to_the_outside_go_on_in_the_original_and_are_cut_in_copies(
    harness: GvisorHarness,
) -> None:
    """A program that waits for a peer which is not there must be told. Listening goes on at once."""
    saved, spec = harness.folder / "saved", background("python3", "-u", "-c", _ECHO)
    async with connected_machine(harness, spec) as (machine, outside):
        assert await echoed(outside, b"before") == b"before"
        await machine.save(saved)
        if keeps_connections(harness):
            assert await echoed(outside, b"after") == b"after"
    async with open_machine(harness, harness.spec(saved=saved)) as copy:
        async with copy.processes.attach(spec.id) as attachment:
            await read_until(attachment, b"over: ")
        new = await asyncio.to_thread(socket.create_connection, (copy.address, 8080), 5)
        try:
            assert await echoed(new, b"new") == b"new"
        finally:
            new.close()


_WATCH = """
import select, socket, sys, time
listener = socket.create_server(("0.0.0.0", 8080))
print("ready", flush=True)
connection, _ = listener.accept()
epoll = select.epoll()
epoll.register(connection, select.EPOLLIN)
print("accepted", flush=True)
assert epoll.poll(60)
try:
    print("over", len(connection.recv(100)), flush=True)
except OSError as error:
    print("over", type(error).__name__, flush=True)
epoll.unregister(connection)
connection.close()
print("left", epoll.poll(0.2), "end", flush=True)
"""


async def test_a_connection_that_was_cut_is_reported_no_more_once_it_is_closed(
    harness: GvisorHarness,
) -> None:
    """Event loops would spin on it in copies for ever, or take it for something else (Bun crashed)."""
    saved, spec = harness.folder / "saved", background("python3", "-u", "-c", _WATCH)
    async with connected_machine(harness, spec) as (machine, _):
        await machine.save(saved)
    async with (
        open_machine(harness, harness.spec(saved=saved)) as copy,
        copy.processes.attach(spec.id) as attachment,
    ):
        assert (await read_until(attachment, b"end\n")).endswith(b"left [] end\n")


_WATCH_AN_END = """
import select, socket, sys
listener = socket.create_server(("0.0.0.0", 8080))
print("ready", flush=True)
connection, _ = listener.accept()
epoll = select.epoll()
epoll.register(connection, select.EPOLLIN | select.EPOLLET)
print("accepted", flush=True)
connection.shutdown(socket.SHUT_WR)
while connection.recv(100): pass
while epoll.poll(0.2): pass
print("over", flush=True)
sys.stdin.readline()
epoll.poll(0)
connection.close()
print("left", epoll.poll(0.2), "end", flush=True)
"""


async def test_a_connection_that_is_over_but_open_is_cut_completely(harness: GvisorHarness) -> None:
    """Builds of 2024 cut it as well; where that is saved half-done, `epoll_wait` never returns in a copy."""
    saved, spec = harness.folder / "saved", background("python3", "-u", "-c", _WATCH_AN_END)
    async with connected_machine(harness, spec) as (machine, outside):
        assert await asyncio.to_thread(outside.recv, 1) == b""
        outside.close()
        async with machine.processes.attach(spec.id) as attachment:
            await read_until(attachment, b"over\n")
        await machine.save(saved)
    async with open_machine(harness, harness.spec(saved=saved)) as copy:
        assert (await answer_until(copy, spec, b"end\n")).endswith(b"left [] end\n")


async def test_a_shell_with_jobs_notices_nothing(harness: GvisorHarness) -> None:
    """Its children are stopped for a moment, of which a shell would tell if it saw it."""
    saved = harness.folder / "saved"
    spec = ProcessSpec(
        secrets.token_hex(4),
        ProcessKind.PTY,
        ("bash", "--norc", "--noprofile"),
        terminal=TerminalSize(80, 24),
        stdin=True,
    )
    async with open_machine(harness) as machine:
        await machine.processes.spawn(spec)
        async with machine.processes.attach(spec.id) as attachment:
            await attachment.write(b"sleep 1001 & sleep 1002 | cat & sleep 1003\n")
            await until(lambda: sleeping(machine, 3))
            for turn in range(3):
                await machine.save(saved if turn == 2 else harness.folder / f"saved-{turn}")
            assert await sleeping(machine, 3)
            async with asyncio.timeout(60):
                while not await sleeping(machine, 1, state="T"):
                    await attachment.write(b"\x1a")  # the user's own stop
                    await asyncio.sleep(0.2)
            await machine.save(harness.folder / "with-a-stopped-one")
            assert await sleeping(machine, 1, state="T")
            await attachment.write(b"\x15jobs; echo en''d\n")
            said = (await read_until(attachment, b"end\r")).decode()
            assert said.count("Running") == 2
            assert said.count("Stopped") == 2  # of the user's own, and in the list
    async with open_machine(harness, harness.spec(saved=saved)) as copy:
        assert await sleeping(copy, 3)
        assert not await sleeping(copy, 1, state="T")


async def test_a_copy_of_a_machine_with_a_stopped_process_has_it_stopped(harness: GvisorHarness) -> None:
    saved = harness.folder / "saved"
    async with open_machine(harness) as machine:
        await output(machine, "setsid sleep 1001 >/dev/null 2>&1 & until pgrep -x sleep; do sleep 0.1; done")
        await output(machine, "kill -STOP $(pgrep -x sleep)")
        await machine.save(saved)
        assert await sleeping(machine, 1, state="T")
    async with open_machine(harness, harness.spec(saved=saved)) as copy:
        assert await sleeping(copy, 1, state="T")
        await output(copy, "kill -CONT $(pgrep -x sleep)")
        assert await sleeping(copy, 1, state="S")


async def test_held_processes_go_on_when_another_server_takes_over(harness: GvisorHarness) -> None:
    """The server that wanted to save the machine was killed before it could let them go."""
    launcher = Launcher(harness.driver, SystemClock())
    machine = await launcher.start(harness.spec(), guest_token=TOKEN)
    await machine.processes.spawn(background("python3", "-c", _WATCHER))
    await until(lambda: wrote_more_than(machine, 5))
    await machine.save(harness.folder / "saved", go_on=False)
    record = machine.record
    await machine.detach()
    await harness.restart()
    adopted = await Launcher(harness.driver, SystemClock()).adopt(record, guest_token=TOKEN)
    assert adopted is not None
    try:
        before = int(await output(adopted, "wc -l < /root/seen"))
        await until(lambda: wrote_more_than(adopted, before + 5))
    finally:
        await adopted.stop()


@asynccontextmanager
async def connected_machine(
    harness: GvisorHarness, spec: ProcessSpec
) -> AsyncGenerator[tuple[Machine, socket.socket]]:
    """A machine with a program that says `ready` and `accepted`, and the connection it has accepted."""
    async with open_machine(harness) as machine:
        await machine.processes.spawn(spec)
        async with machine.processes.attach(spec.id) as attachment:
            await read_until(attachment, b"ready\n")
            outside = await asyncio.to_thread(socket.create_connection, (machine.address, 8080), 5)
            try:
                await read_until(attachment, b"accepted")
                yield machine, outside
            finally:
                outside.close()


async def echoed(connection: socket.socket, data: bytes) -> bytes:
    connection.settimeout(5)
    await asyncio.to_thread(connection.sendall, data)
    return await asyncio.to_thread(connection.recv, 100)


def keeps_connections(harness: GvisorHarness) -> bool:
    """Builds of 2024 cut them in the original, too."""
    assert isinstance(harness.driver, GvisorDriver)
    return harness.driver.build.keeps_connections


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """What a machine does is seen only by asking it again and again."""
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 - nothing in this process tells of it
            await asyncio.sleep(0.02)


async def wrote_more_than(machine: Machine, lines: int) -> bool:
    return int(await output(machine, "cat /root/seen 2>/dev/null | wc -l")) > lines


async def sleeping(machine: Machine, least: int, *, state: str = "S") -> bool:
    counted = await output(machine, f"cat /proc/[0-9]*/stat | grep -c ' (sleep) {state} ' || true")
    return int(counted) >= least


async def answer_of(machine: Machine, spec: ProcessSpec) -> bytes:
    return await answer_until(machine, spec, b"\n")


async def answer_until(machine: Machine, spec: ProcessSpec, end: bytes) -> bytes:
    async with machine.processes.attach(spec.id, offset=None) as attachment:
        await attachment.write(b"\n")
        return await read_until(attachment, end)
