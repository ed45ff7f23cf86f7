"""A machine that is an ordinary process of this host: the real guest, without root and without isolation."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.driver import (
    DriverRecord,
    Limits,
    MachineId,
    Still,
    Stillness,
    Usage,
    not_still,
)
from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.machines.link import Link
from opencomputer.server.machines.machine import LinkedMachine

TOKEN = "a token for tests"
_INSIDE = Path(__file__).parents[2] / "src" / "opencomputer" / "inside"
_PROGRAM = (
    f"import sys; sys.path.insert(0, {str(_INSIDE)!r}); from guest.main import main_on_host; main_on_host()"
)


async def _nothing() -> None:
    return


class HostGuest:
    """Implements `Running`. Freezing stops the guest process; its sessions' processes run on."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self._port = port
        self.frozen = False
        self.while_still: Callable[[], Awaitable[None]] = _nothing
        self.stillness: Stillness | None = None
        """What was known of the machine at its last saving."""
        self.freezes = 0
        self.thaws = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def record(self) -> DriverRecord:
        return DriverRecord("host", MachineId(f"m{self._process.pid:015x}"), {"port": self._port})

    @property
    def guest_address(self) -> tuple[str, int]:
        return "127.0.0.1", self._port

    async def freeze(self) -> None:
        self.freezes += 1
        self.frozen = True
        self._process.send_signal(signal.SIGSTOP)

    async def thaw(self) -> None:
        self.thaws += 1
        self.frozen = False
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGCONT)

    async def save(
        self, folder: Path, *, memory: bool = True, go_on: bool = True, still: Still = not_still
    ) -> None:
        """Only as still as a saving: what the test does in `while_still` takes the time."""
        async with still() as self.stillness:
            await self.while_still()

    async def go_on(self) -> None:
        return

    async def set_limits(self, limits: Limits) -> None:
        return

    async def set_egress(self, mode: EgressMode) -> None:
        return

    async def usage(self) -> Usage:
        return Usage(0, 0.0, 0, 0, 0)

    async def wait(self) -> str:
        return f"the guest ended with {await self._process.wait()}"

    async def crash(self) -> None:
        """End the guest at once, as a machine that dies."""
        self._process.kill()
        await self._process.wait()

    async def stop(self) -> None:
        if self._process.returncode is not None:
            return
        await self.thaw()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 60)
        except TimeoutError:
            await self.crash()


@asynccontextmanager
async def host_guest(home: Path, *, sudo_socket: Path | None = None) -> AsyncGenerator[HostGuest]:
    """A running guest whose user lives in `home`; at the end it and everything it started are gone."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-S", "-c", _PROGRAM),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={
            "OC_TOKEN": TOKEN,
            "OC_HOME": str(home),
            "OC_SUDO_SOCKET": str(sudo_socket or ""),
            "PATH": os.environ["PATH"],
        },
    )
    assert process.stdout is not None
    running = HostGuest(process, int(await process.stdout.readline()))
    try:
        yield running
    finally:
        await running.stop()


@asynccontextmanager
async def linked_machine(
    running: HostGuest, clock: Clock, *, token: str = TOKEN, seconds: float = 10
) -> AsyncGenerator[LinkedMachine]:
    """The machine on a running guest, connected; let go of at the end."""
    machine = LinkedMachine(running, Link(running.guest_address, token), clock)
    try:
        await machine.connect(seconds)
        yield machine
    finally:
        await machine.detach()
