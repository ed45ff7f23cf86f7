"""Starts machines and takes them over."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path

import opencomputer.inside
from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.driver import (
    Capabilities,
    Driver,
    DriverRecord,
    MachineId,
    MachineSpec,
    Running,
)
from opencomputer.server.contracts.machine import Machine
from opencomputer.server.domain.errors import OpenComputerError, StartFailed
from opencomputer.server.machines.link import Link
from opencomputer.server.machines.machine import LinkedMachine

_START_SECONDS = 60.0
_ADOPT_SECONDS = 30.0


class Launcher:
    """Implements `Machines` for any driver."""

    def __init__(self, driver: Driver, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock
        self._image_version = f"{driver.version}-{code_version(Path(opencomputer.inside.__path__[0]))}"

    @property
    def image_version(self) -> str:
        return self._image_version

    @property
    def capabilities(self) -> Capabilities:
        return self._driver.capabilities

    async def start(self, spec: MachineSpec, *, guest_token: str) -> Machine:
        running = await self._driver.start(spec)
        try:
            return await self._compose(running, guest_token, _START_SECONDS)
        except OpenComputerError as error:
            await asyncio.shield(running.stop())
            raise StartFailed(f"The machine's guest did not come up: {error.message}") from error
        except BaseException:
            await asyncio.shield(running.stop())
            raise

    async def adopt(self, record: DriverRecord, *, guest_token: str) -> Machine | None:
        running = await self._driver.adopt(record)
        if running is None:
            return None
        return await self._compose(running, guest_token, _ADOPT_SECONDS, adopted=True)

    async def survey(self) -> Sequence[MachineId]:
        return await self._driver.survey()

    async def discard(self, machine_id: MachineId) -> None:
        await self._driver.discard(machine_id)

    async def _compose(
        self, running: Running, token: str, seconds: float, *, adopted: bool = False
    ) -> LinkedMachine:
        machine = LinkedMachine(running, Link(running.guest_address, token), self._clock)
        try:
            await machine.connect(seconds)
            if adopted:
                # An earlier server may have been killed while it saved the machine.
                await machine.release()
        except BaseException:
            await asyncio.shield(machine.detach())
            raise
        return machine


def code_version(folder: Path) -> str:
    """A short hash of the Python code below `folder`: a memory image holds the guest as it was."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(str(file.relative_to(folder)).encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:12]
