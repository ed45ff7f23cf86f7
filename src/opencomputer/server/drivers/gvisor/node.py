"""What all parts of the driver work with: one node's configuration and its ways to the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opencomputer.server.contracts.driver import Limits, MachineId
from opencomputer.server.contracts.network import MachineNetwork
from opencomputer.server.drivers.gvisor.config import GvisorConfig, MachineFolder, machine_folder
from opencomputer.server.drivers.gvisor.disk import Disks
from opencomputer.server.drivers.gvisor.runsc import Runsc
from opencomputer.server.host.cgroups import Group, GroupLimits, Groups
from opencomputer.server.host.runsc_build import RunscBuild

_KERNEL_MEMORY_BYTES = 96 << 20
"""What a machine's kernel and its helper may use on top of the machine's memory."""
_THREADS_OF_KERNEL = 1024
_THREADS_PER_PROCESS = 2

BeforeStep = Callable[[str], None]
"""Called with the name of each step before it is taken; tests make steps fail with it."""


@dataclass(frozen=True)
class Node:
    config: GvisorConfig
    build: RunscBuild
    runsc: Runsc
    groups: Groups
    disks: Disks
    network: MachineNetwork
    before_step: BeforeStep

    def folder(self, machine_id: MachineId) -> MachineFolder:
        return machine_folder(self.config, machine_id)

    def group(self, machine_id: MachineId) -> Group:
        return self.groups.group(machine_id)


def groups_parent(node_tag: str) -> str:
    return f"opencomputer-{node_tag}"


def group_limits(limits: Limits) -> GroupLimits:
    """What the host allows the whole machine, its kernel included.

    Every process inside is a process and a thread of the host. The machine's own limit is kept inside; this
    one only has to be out of its way, because the machine's kernel does not survive a refused thread.
    """
    return GroupLimits(
        memory_bytes=limits.memory_bytes + _KERNEL_MEMORY_BYTES + limits.memory_bytes // 32,
        cpu_percent=limits.cpu_percent,
        cpu_weight=limits.cpu_weight,
        pids=limits.pids * _THREADS_PER_PROCESS + _THREADS_OF_KERNEL,
    )
