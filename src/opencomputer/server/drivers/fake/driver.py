"""The fake driver."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.contracts.driver import (
    Capabilities,
    DriverRecord,
    Limits,
    MachineId,
    MachineSpec,
)
from opencomputer.server.domain.errors import Conflict
from opencomputer.server.drivers.fake.faults import FakeFaults
from opencomputer.server.drivers.fake.guest_process import GuestProcess, start_guest
from opencomputer.server.drivers.fake.machine import DRIVER_NAME, FakeMachine, remove
from opencomputer.server.drivers.fake.saving import check_memory, fill_home
from opencomputer.server.host.processes import ProcessRef, is_alive
from opencomputer.server.host.tasks import finish

_MACHINE_ID = re.compile(r"m[0-9a-f]{15}")
_ALL_CAPABILITIES = Capabilities(memory_snapshots=True, setuid=True, saves_deleted_files=True)
_ADOPTED_LIMITS = Limits(memory_bytes=1 << 32, cpu_percent=100, disk_bytes=1 << 34)


@dataclass(frozen=True)
class FakeConfig:
    """`inside` is the folder that has the package `guest`."""

    data_dir: Path
    inside: Path
    python: Path = Path(sys.executable)
    capabilities: Capabilities = _ALL_CAPABILITIES


class FakeDriver:
    """Implements Driver. Its machines are not isolated at all: never run anything untrusted in them."""

    def __init__(self, config: FakeConfig, faults: FakeFaults | None = None) -> None:
        self._config = config
        self.faults = faults or FakeFaults()

    async def open(self) -> None:
        await asyncio.to_thread(self._machines.mkdir, parents=True, exist_ok=True)

    async def close(self) -> None:
        """Let go. Machines go on running."""

    @property
    def name(self) -> str:
        return DRIVER_NAME

    @property
    def version(self) -> str:
        return "fake-1"

    @property
    def capabilities(self) -> Capabilities:
        return self._config.capabilities

    async def start(self, spec: MachineSpec) -> FakeMachine:
        await self.faults.before("start")
        folder = self._folder(spec.id)
        _claim(folder)
        try:
            return await self._start(spec, folder)
        except BaseException:
            await finish(asyncio.to_thread(remove, folder))
            raise

    async def adopt(self, record: DriverRecord) -> FakeMachine | None:
        await self.faults.before("adopt")
        pid, start_ticks, port = (record.state.get(key) for key in ("pid", "start_ticks", "port"))
        if not (isinstance(pid, int) and isinstance(start_ticks, int) and isinstance(port, int)):
            return None
        guest = GuestProcess(ProcessRef(pid, start_ticks), port)
        folder = self._folder(record.machine_id)
        if record.driver != DRIVER_NAME or not is_alive(guest.process) or not folder.is_dir():
            return None
        machine = FakeMachine(record.machine_id, guest, folder, self.faults, _ADOPTED_LIMITS)
        await machine.go_on()
        return machine

    async def survey(self) -> Sequence[MachineId]:
        await self.faults.before("survey")
        return sorted(MachineId(entry.name) for entry in self._machines.iterdir())

    async def discard(self, machine_id: MachineId) -> None:
        await self.faults.before("discard")
        await finish(asyncio.to_thread(remove, self._folder(machine_id)))

    async def _start(self, spec: MachineSpec, folder: Path) -> FakeMachine:
        await self.faults.before("folder")
        if spec.memory_image is not None:
            check_memory(spec.memory_image)
        await asyncio.to_thread(fill_home, folder, spec.layers)
        await self.faults.before("guest")
        # A guest is given another token while it runs, which only the host and the guest know. So the host
        # says here what the saved one accepted last.
        guest = await start_guest(self._config.python, self._config.inside, spec.token, folder)
        await self.faults.before("record")
        self._misbehave(guest)
        machine = FakeMachine(spec.id, guest, folder, self.faults, spec.limits)
        machine.egress = spec.egress
        return machine

    def _misbehave(self, guest: GuestProcess) -> None:
        if self.faults.mute:
            os.kill(guest.process.pid, signal.SIGSTOP)
        if self.faults.die_after_seconds is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(self.faults.die_after_seconds, _kill, guest.process)

    def _folder(self, machine_id: MachineId) -> Path:
        if not _MACHINE_ID.fullmatch(machine_id):
            raise ValueError(f"not a machine id: {machine_id!r}")
        return self._machines / machine_id

    @property
    def _machines(self) -> Path:
        return self._config.data_dir / "machines"


def _claim(folder: Path) -> None:
    """Make a machine's folder, without giving others a turn: a cancellation comes before it or after."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise Conflict("There is a machine of this id already.", machine=folder.name) from None


def _kill(process: ProcessRef) -> None:
    if is_alive(process):
        os.kill(process.pid, signal.SIGKILL)
