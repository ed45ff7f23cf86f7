"""One fake machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from pathlib import Path

from opencomputer.server.contracts.driver import DriverRecord, Limits, MachineId, Still, Usage, not_still
from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.domain.errors import Conflict, MachineLost
from opencomputer.server.drivers.fake.faults import FakeFaults
from opencomputer.server.drivers.fake.guest_process import GuestProcess
from opencomputer.server.drivers.fake.saving import write_saved
from opencomputer.server.host.process_trees import kill_tree, tree
from opencomputer.server.host.processes import is_alive, reference, wait_end
from opencomputer.server.host.tasks import finish

DRIVER_NAME = "fake"
PAUSED_FILE = "paused"
_KILL_DEADLINE_SECONDS = 10.0
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class FakeMachine:
    """Implements Running on a process tree of the host. It has no disk and no network of its own."""

    def __init__(
        self, machine_id: MachineId, guest: GuestProcess, folder: Path, faults: FakeFaults, limits: Limits
    ) -> None:
        self._id = machine_id
        self._guest = guest
        self._folder = folder
        self._faults = faults
        self.limits = limits
        self.egress = EgressMode.OPEN
        """The mode it was given last. Nothing enforces it here."""
        self._stopped = False

    @property
    def record(self) -> DriverRecord:
        process = self._guest.process
        state = {"pid": process.pid, "start_ticks": process.start_ticks, "port": self._guest.port}
        return DriverRecord(DRIVER_NAME, self._id, state)

    @property
    def guest_address(self) -> tuple[str, int]:
        return "127.0.0.1", self._guest.port

    async def freeze(self) -> None:
        await self._faults.before("freeze")
        self._signal_all(signal.SIGSTOP)

    async def thaw(self) -> None:
        await self._faults.before("thaw")
        self._signal_all(signal.SIGCONT)

    async def save(
        self, folder: Path, *, memory: bool = True, go_on: bool = True, still: Still = not_still
    ) -> None:
        """The layer is the home folder; the memory a stand-in: a machine started from it is a fresh one with
        the files and the token of the saved one."""
        await self._faults.before("save")
        self._check_alive()
        async with still():
            await finish(asyncio.to_thread(write_saved, self._folder, folder, memory=memory))
        if not go_on:
            (self._folder / PAUSED_FILE).touch()
            self._signal_all(signal.SIGSTOP)

    async def go_on(self) -> None:
        await self._faults.before("go_on")
        if (self._folder / PAUSED_FILE).exists():
            self._signal_all(signal.SIGCONT)
            (self._folder / PAUSED_FILE).unlink()

    async def set_limits(self, limits: Limits) -> None:
        self._check_alive()
        if limits.memory_bytes < (await self.usage()).memory_bytes:
            raise Conflict("The machine uses more memory than that.")
        self.limits = limits

    async def set_egress(self, mode: EgressMode) -> None:
        await self._faults.before("set_egress")
        self._check_alive()
        self.egress = mode

    async def usage(self) -> Usage:
        self._check_alive()
        return await asyncio.to_thread(_measure, self._guest.process.pid)

    async def wait(self) -> str:
        await wait_end(self._guest.process)
        return self._reason()

    async def stop(self) -> None:
        await self._faults.before("stop")
        self._stopped = True
        await finish(asyncio.to_thread(remove, self._folder))

    def _signal_all(self, number: signal.Signals) -> None:
        self._check_alive()
        for pid in tree(self._guest.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _reason(self) -> str:
        return "stopped" if self._stopped or not self._folder.exists() else "exited"

    def _check_alive(self) -> None:
        if self._stopped or not is_alive(self._guest.process):
            raise MachineLost(reason=self._reason())


def remove(folder: Path) -> None:
    """End whatever process a machine's folder names and remove the folder. Idempotent; blocks."""
    with contextlib.suppress(OSError, ValueError):
        process = reference(int((folder / "pid").read_text()))
        if process is not None and _is_ours(process.pid, folder):
            kill_tree(process, deadline_seconds=_KILL_DEADLINE_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


def _is_ours(pid: int, folder: Path) -> bool:
    """Whether a process number still belongs to the machine: its error output is the machine's log."""
    try:
        return Path(f"/proc/{pid}/fd/2").samefile(folder / "log")
    except OSError:
        return False


def _measure(root: int) -> Usage:
    pids = tree(root)
    ticks = pages = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(int(field) for field in fields[11:15])
            pages += int(fields[21])
    return Usage(pages * _PAGE_BYTES, ticks / _TICKS_PER_SECOND, len(pids), 0, 0)
