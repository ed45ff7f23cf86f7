"""sudo's client and the guest, together, as ordinary processes. Everybody stays who they are."""

from __future__ import annotations

import array
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

import opencomputer.inside
from opencomputer.inside.guest import elevation_messages as messages
from opencomputer.inside.sudo.messages import Request
from opencomputer.server.contracts.machine import ProcessSpec
from opencomputer.server.machines.machine import LinkedMachine
from tests.support.host_guest import host_guest, linked_machine
from tests.support.processes import run, shell
from tests.support.real_clock import RealClock

pytestmark = pytest.mark.anyio

CLIENT = Path(opencomputer.inside.__path__[0]) / "sudo/client.py"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def sudo_socket(tmp_path: Path) -> Path:
    return tmp_path / "sudo.sock"


@pytest.fixture
async def machine(tmp_path: Path, sudo_socket: Path) -> AsyncGenerator[LinkedMachine]:
    async with (
        host_guest(tmp_path, sudo_socket=sudo_socket) as running,
        linked_machine(running, RealClock()) as linked,
    ):
        yield linked


@pytest.fixture
def me() -> str:
    """A name for ourselves that sudo understands."""
    return f"#{os.getuid()}"


def with_sudo(script: str, sudo_socket: Path) -> ProcessSpec:
    """A script in which `$S` is sudo."""
    environment = {"OC_SUDO_SOCKET": str(sudo_socket), "S": f"{sys.executable} -I -S {CLIENT}"}
    return replace(shell(script), environment=environment)


async def test_a_command_has_the_callers_descriptors(
    machine: LinkedMachine, sudo_socket: Path, me: str
) -> None:
    script = f"echo in | $S -u '{me}' sh -c 'cat; echo err >&2; exit 7'"
    finished = await run(machine, with_sudo(script, sudo_socket))
    assert (finished.stdout, finished.stderr, finished.exit.code) == (b"in\n", b"err\n", 7)


async def test_it_has_the_callers_directory(
    machine: LinkedMachine, sudo_socket: Path, me: str, tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    finished = await run(machine, with_sudo(f"cd here; $S -u '{me}' pwd", sudo_socket))
    assert finished.stdout.decode().strip() == str(tmp_path / "here")


async def test_a_command_that_is_missing_is_told(machine: LinkedMachine, sudo_socket: Path, me: str) -> None:
    finished = await run(machine, with_sudo(f"$S -u '{me}' no-such-program", sudo_socket))
    assert (finished.stderr, finished.exit.code) == (b"sudo: no-such-program: command not found\n", 1)


async def test_a_signal_death_is_passed_on(machine: LinkedMachine, sudo_socket: Path, me: str) -> None:
    finished = await run(machine, with_sudo(f"exec $S -u '{me}' sh -c 'kill -TERM $$'", sudo_socket))
    assert (finished.exit.code, finished.exit.signal) == (143, 15)


async def test_a_signal_to_sudo_reaches_the_command(
    machine: LinkedMachine, sudo_socket: Path, me: str
) -> None:
    script = f"exec $S -u '{me}' sh -c \"trap 'echo caught; exit 9' TERM; kill -TERM $$; sleep 10\""
    finished = await run(machine, with_sudo(script, sudo_socket))
    assert (finished.stdout, finished.exit.code) == (b"caught\n", 9)


@pytest.mark.usefixtures("machine")
async def test_a_signal_that_comes_along_with_the_request_is_passed_on(sudo_socket: Path) -> None:
    request = Request(os.getuid(), os.getgid(), 0, "/").encode("/bin/sleep", ["sleep", "30"], {})
    with socket.socket(socket.AF_UNIX) as connection, socket.socket(socket.AF_UNIX) as nothing:
        connection.settimeout(5)
        connection.connect(str(sudo_socket))
        assert connection.recv(1) == messages.READY
        descriptors = array.array("i", [nothing.fileno()] * 3)
        message = request + messages.WORD.pack(messages.SIGNAL, signal.SIGTERM)
        connection.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        said = b""
        while len(said) < 2 * messages.WORD.size:
            said += connection.recv(100)
    started, ended = messages.WORD.iter_unpack(said)
    assert started[0] == messages.STARTED
    assert ended == (messages.KILLED, signal.SIGTERM)


@pytest.mark.parametrize(
    "message",
    [
        b"\xff\xff\xff\xff",
        messages.LENGTH.pack(3) + b"a\0b",
        messages.LENGTH.pack(0),
        messages.LENGTH.pack(21) + b"0\x000\x000\x00/\x00true\x001\x00true\x00x",
    ],
)
async def test_nonsense_ends_the_conversation_only(
    machine: LinkedMachine, sudo_socket: Path, me: str, message: bytes
) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(str(sudo_socket))
        assert connection.recv(1) == messages.READY
        connection.sendall(message)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""
    finished = await run(machine, with_sudo(f"$S -u '{me}' echo fine", sudo_socket))
    assert finished.stdout == b"fine\n"
