"""The gVisor driver: the verbs are in modules of their own, this is what callers hold."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from opencomputer.server.contracts.driver import Capabilities, DriverRecord, MachineId, MachineSpec
from opencomputer.server.contracts.network import MachineNetwork
from opencomputer.server.drivers.gvisor.build import ask_build, capabilities_of, image_version_here
from opencomputer.server.drivers.gvisor.config import GvisorConfig, empty_folder, machines_dir
from opencomputer.server.drivers.gvisor.console import Console
from opencomputer.server.drivers.gvisor.disk import Disks, find_out_disks
from opencomputer.server.drivers.gvisor.machine import GvisorMachine
from opencomputer.server.drivers.gvisor.node import BeforeStep, Node, groups_parent
from opencomputer.server.drivers.gvisor.pausing import go_on
from opencomputer.server.drivers.gvisor.record import DRIVER_NAME, MachineState, from_record
from opencomputer.server.drivers.gvisor.removal import remove_machine
from opencomputer.server.drivers.gvisor.runsc import Runsc
from opencomputer.server.drivers.gvisor.start import start_machine
from opencomputer.server.host.cgroups import Groups
from opencomputer.server.host.processes import boot_id, is_alive
from opencomputer.server.host.runsc_build import RunscBuild
from opencomputer.server.host.tasks import finish

_MACHINE_ID = re.compile(r"m[0-9a-f]{15}")


class GvisorDriver:
    """Implements Driver. `open` must have been awaited before anything else is used."""

    def __init__(
        self, config: GvisorConfig, network: MachineNetwork, *, before_step: BeforeStep = lambda _: None
    ) -> None:
        self._config = config
        self._network = network
        self._before_step = before_step
        self._starting = asyncio.Semaphore(config.concurrent_starts)
        self._opened: tuple[Node, str] | None = None

    async def open(self) -> None:
        """Ask the build what it can do and set up what the node needs once. Idempotent.

        Raises BuildUnusable, CgroupsUnavailable.
        """
        if self._opened is not None:
            return
        build = await asyncio.to_thread(ask_build, self._config.runsc)
        version = image_version_here(build, self._config.runtime)
        groups = Groups.of_this_host(groups_parent(self._config.node_tag))
        machines_dir(self._config).mkdir(mode=0o700, parents=True, exist_ok=True)
        empty_folder(self._config).mkdir(exist_ok=True)
        disks = Disks(None)
        if self._config.limit_disks:
            disks = await find_out_disks(self._config.data_dir)
        await self._network.open()
        node = Node(self._config, build, Runsc(build), groups, disks, self._network, self._before_step)
        self._opened = (node, version)

    async def close(self) -> None:
        """Let go of the host. Machines go on running; a later driver adopts them."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await self._network.close()
            await asyncio.to_thread(opened[0].groups.remove_parent)

    @property
    def name(self) -> str:
        return DRIVER_NAME

    @property
    def version(self) -> str:
        return self._use()[1]

    @property
    def build(self) -> RunscBuild:
        return self._node.build

    @property
    def capabilities(self) -> Capabilities:
        return capabilities_of(self._node.build)

    @property
    def limits_disks(self) -> bool:
        """Whether `Limits.disk_bytes` is enforced. If not, only the host's own space bounds a machine."""
        return self._node.disks.limited

    async def start(self, spec: MachineSpec) -> GvisorMachine:
        check_machine_id(spec.id)
        async with self._starting:
            started = await start_machine(self._node, spec)
        state = MachineState(started.kernel, started.link, boot_id())
        return GvisorMachine(self._node, spec.id, state, Console(started.console))

    async def adopt(self, record: DriverRecord) -> GvisorMachine | None:
        state = from_record(record)
        if state is None or state.boot_id != boot_id() or not is_alive(state.kernel):
            return None
        if state.kernel.pid not in self._node.group(record.machine_id).processes():
            return None
        await go_on(self._node, record.machine_id)
        return GvisorMachine(self._node, record.machine_id, state, None)

    async def survey(self) -> Sequence[MachineId]:
        return await asyncio.to_thread(self._find_all)

    async def discard(self, machine_id: MachineId) -> None:
        check_machine_id(machine_id)
        await finish(asyncio.to_thread(remove_machine, self._node, machine_id))

    def _find_all(self) -> list[MachineId]:
        """Whatever has a folder, a control group or a link. Mounts and processes are in those."""
        folders = (entry.name for entry in machines_dir(self._config).iterdir())
        names = {*folders, *self._node.groups.names(), *self._node.network.links()}
        return sorted(MachineId(name) for name in names if _MACHINE_ID.fullmatch(name))

    @property
    def _node(self) -> Node:
        return self._use()[0]

    def _use(self) -> tuple[Node, str]:
        if self._opened is None:
            raise RuntimeError("the driver is not open")
        return self._opened


def check_machine_id(machine_id: MachineId) -> None:
    """Ids become folder names: anything of another shape is a mistake of the caller. Raises ValueError."""
    if not _MACHINE_ID.fullmatch(machine_id):
        raise ValueError(f"not a machine id: {machine_id!r}")
