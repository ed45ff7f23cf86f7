"""Images over a node in memory: what steps do is written in a script."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from opencomputer.server.contracts.driver import Capabilities, MachineId
from opencomputer.server.contracts.machine import ExitStatus
from opencomputer.server.domain.snapshot import Snapshot
from opencomputer.server.services.sandboxes.build_log import BuildLine
from opencomputer.server.services.sandboxes.builder_machines import HiddenMachines
from opencomputer.server.services.sandboxes.image_builds import ImageBuilder
from opencomputer.server.services.sandboxes.image_upkeep import ImageUpkeep
from opencomputer.server.services.sandboxes.images import Images, ImageStores
from opencomputer.server.services.sandboxes.named_snapshots import NamedSnapshots
from opencomputer.wire.ids import OrgId
from tests.support.memory.access import MemoryOrganisations
from tests.support.memory.images import ImageTables, MemoryImages, MemoryNamedSnapshots, MemoryPrefixes
from tests.support.memory.machines import MemoryHost
from tests.support.memory.processes import MemoryProcess
from tests.unit.server.services.harness import ORG, Node, Process

ALL = Capabilities(memory_snapshots=True, setuid=True, saves_deleted_files=True)


def step(kind: str, **args: Any) -> dict[str, Any]:
    return {"type": kind, "args": args}


def run(*commands: str) -> dict[str, Any]:
    return step("run", commands=list(commands))


def manifest(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"base": "base", "steps": list(steps), **fields}


@dataclass
class Script:
    """What commands of `run` steps do. All other programs of a build succeed in silence."""

    fail: dict[str, ExitStatus] = field(default_factory=dict[str, ExitStatus])
    """Words in a command, and how that ends."""
    say: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict[str, list[tuple[int, bytes]]])
    hang: set[str] = field(default_factory=set[str])
    commands: list[str] = field(default_factory=list[str])
    processes: list[MemoryProcess] = field(default_factory=list[MemoryProcess])
    waiting: list[MemoryProcess] = field(default_factory=list[MemoryProcess])

    def install(self, host: MemoryHost) -> None:
        earlier = host.before

        async def before(event: str, machine: MachineId) -> None:
            if event == "identify":
                host.machines[machine].processes.program = self._carry_out
            await earlier(event, machine)

        host.before = before

    def _carry_out(self, process: MemoryProcess) -> None:
        self.processes.append(process)
        script = process.spec.argv[-1]
        if not script.startswith("eval "):
            process.end()
            return
        command = shlex.split(script.splitlines()[0])[1]
        self.commands.append(command)
        for word, pieces in self.say.items():
            if word in command:
                for stream, data in pieces:
                    process.output(1 if stream == 1 else 2, data)
        if any(word in command for word in self.hang):
            self.waiting.append(process)
            return
        process.end(next((status for word, status in self.fail.items() if word in command), None))


class Building:
    """The services of images in one life of the server."""

    def __init__(self, node: Node, process: Process, tables: ImageTables) -> None:
        self.node = node
        self.process = process
        self.tables = tables
        self.artefacts = process.artefacts
        self.snapshots = process.snapshots
        prefixes, named = MemoryPrefixes(tables), MemoryNamedSnapshots(tables)
        stores = ImageStores(MemoryImages(tables), prefixes, named, process.snapshots, process.artefacts)
        machines = HiddenMachines(process.provisioning, process.admission, process.artefacts)
        builder = ImageBuilder(machines, process.captures, process.snapshots, prefixes, process.clock)
        self.images = Images(stores, builder, node.templates, process.clock, process.background)
        self.named = NamedSnapshots(
            named, self.images, MemoryOrganisations(node.tables), process.clock, process.background
        )
        self.upkeep = ImageUpkeep(self.images, self.named, process.clock)

    async def build(
        self, value: dict[str, Any], lines: list[BuildLine] | None = None, org: OrgId = ORG
    ) -> Snapshot:
        async def log(line: BuildLine) -> None:
            if lines is not None:
                lines.append(line)

        return await self.images.resolve(org, self.images.prepare(value), log)


@asynccontextmanager
async def building(node: Node, tables: ImageTables | None = None) -> AsyncGenerator[Building]:
    """One life of the server. With the same node and tables, the next one."""
    async with node.process() as process:
        yield Building(node, process, tables or ImageTables())
