"""One running machine on gVisor."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

from opencomputer.server.contracts.driver import DriverRecord, Limits, MachineId, Still, Usage, not_still
from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.domain.errors import (
    Conflict,
    HostDiskFull,
    MachineLost,
    NotReady,
    NotSupported,
    SnapshotRefused,
)
from opencomputer.server.drivers.gvisor.console import Console
from opencomputer.server.drivers.gvisor.node import Node, group_limits
from opencomputer.server.drivers.gvisor.pausing import go_on
from opencomputer.server.drivers.gvisor.record import MachineState, to_record
from opencomputer.server.drivers.gvisor.removal import remove_machine
from opencomputer.server.drivers.gvisor.snapshot import Saving, save_machine
from opencomputer.server.host.cgroups import GroupStuck
from opencomputer.server.host.processes import is_alive, wait_end
from opencomputer.server.host.tasks import finish

GUEST_PORT = 7000


class GvisorMachine:
    """Implements Running. Its calls exclude each other where they must: freezing waits for a saving."""

    def __init__(
        self, node: Node, machine_id: MachineId, state: MachineState, console: Console | None
    ) -> None:
        self._node = node
        self._id = machine_id
        self._state = state
        self._console = console
        self._group = node.group(machine_id)
        self._frozen: bool | None = None
        self._stopped = False
        self._turn = asyncio.Lock()

    @property
    def record(self) -> DriverRecord:
        return to_record(self._id, self._state)

    @property
    def guest_address(self) -> tuple[str, int]:
        return self._state.link.guest_address, GUEST_PORT

    @property
    def console(self) -> str:
        """The first things its first process printed; empty for an adopted machine."""
        return self._console.text if self._console else ""

    async def freeze(self) -> None:
        async with self._turn:
            self._check_alive()
            if self._frozen is not True:
                await self._freeze()

    async def thaw(self) -> None:
        async with self._turn:
            self._thaw()

    async def save(
        self, folder: Path, *, memory: bool = True, go_on: bool = True, still: Still = not_still
    ) -> None:
        async with self._turn:
            self._check_alive()
            was_frozen = self._frozen
            self._thaw()  # a frozen kernel cannot write itself down
            saved = False
            try:
                await save_machine(self._node, self._id, Saving(folder, memory, go_on, still))
                saved = True
            except (SnapshotRefused, HostDiskFull, OSError):
                self._check_alive()  # a machine that ended meanwhile explains everything else
                raise
            finally:
                if was_frozen and not (saved and not go_on) and is_alive(self._state.kernel):
                    await self._freeze()

    async def go_on(self) -> None:
        async with self._turn:
            self._check_alive()
            await finish(go_on(self._node, self._id))

    async def set_limits(self, limits: Limits) -> None:
        async with self._turn:  # what a saving takes away meanwhile it also puts back
            self._check_alive()
            # Version 1 refuses a limit below the use, version 2 kills. Neither is asked.
            if limits.memory_bytes < self._group.usage().memory_bytes:
                raise Conflict("The machine uses more memory than that.")
            if not self._node.disks.has_size(self._node.folder(self._id), limits.disk_bytes):
                raise NotSupported("The size of a disk cannot be changed.")
            try:
                self._group.set_limits(group_limits(limits))
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                raise Conflict("The machine uses more memory than that.") from error

    async def set_egress(self, mode: EgressMode) -> None:
        try:
            await finish(asyncio.to_thread(self._node.network.set_egress, self._state.link, mode))
        except OSError:
            self._check_alive()  # the link goes with the machine
            raise

    async def usage(self) -> Usage:
        self._check_alive()
        used = self._group.usage()
        received, sent = self._node.network.traffic(self._state.link)
        return Usage(used.memory_bytes, used.cpu_seconds, used.pids, received, sent)

    async def wait(self) -> str:
        await wait_end(self._state.kernel)
        return self._reason()

    async def stop(self) -> None:
        self._stopped = True
        if self._console is not None:
            self._console.close()
        await finish(asyncio.to_thread(remove_machine, self._node, self._id))

    async def _freeze(self) -> None:
        self._frozen = None  # unknown until it is done: a cancelled caller must not hide that it happened
        try:
            await finish(asyncio.to_thread(self._group.freeze))
        except GroupStuck as error:
            self._frozen = False
            raise NotReady("The machine could not be stopped in time; try again shortly.") from error
        self._frozen = True

    def _thaw(self) -> None:
        self._check_alive()
        if self._frozen is not False:
            self._group.thaw()
            self._frozen = False

    def _reason(self) -> str:
        if self._stopped:
            return "stopped"
        try:
            return "out of memory" if self._group.out_of_memory() else "exited"
        except OSError:
            return "stopped"

    def _check_alive(self) -> None:
        if self._stopped or not is_alive(self._state.kernel):
            raise MachineLost(reason=self._reason())
