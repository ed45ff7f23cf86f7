"""Machines that exist in memory only, and fail where a test says so."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from opencomputer.server.contracts.driver import (
    LAYER,
    MEMORY,
    Capabilities,
    DriverRecord,
    Limits,
    MachineId,
    MachineSpec,
    Usage,
)
from opencomputer.server.contracts.machine import Connection, Identity
from opencomputer.server.domain.capacity import HostLoad
from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.domain.errors import Conflict, NothingListens
from tests.support.memory.files import MemoryFiles
from tests.support.memory.processes import MemoryProcess, MemoryProcesses

GIB = 1 << 30
NO_SNAPSHOTS = Capabilities(memory_snapshots=False, setuid=True, saves_deleted_files=True)

Step = Callable[[str, MachineId], Awaitable[None]]


async def _nothing(_step: str, _machine: MachineId) -> None:
    return


class MemoryMachine:
    """Implements Machine. `writable` is its writable layer: a path to text. Saved memory is a number,
    by which the host knows the processes."""

    def __init__(self, host: MemoryHost, spec: MachineSpec, token: str) -> None:
        self._host = host
        self.spec = spec
        self.token = token
        self.limits = spec.limits
        self.egress = spec.egress
        self.identity: Identity | None = None
        self.processes = MemoryProcesses()
        self.files = MemoryFiles()
        self.rests = 0
        self.frozen = False
        self.detached = False
        self.paused = False
        self.writable: dict[str, str] = {}
        self.ended = asyncio.Event()
        self.cpu_seconds = 0.0
        self.memory_bytes = 64 << 20
        self.egress = spec.egress
        self.address = f"10.0.0.{next(host.addresses)}"

    @property
    def id(self) -> MachineId:
        return self.spec.id

    @property
    def record(self) -> DriverRecord:
        return DriverRecord("memory", self.spec.id, {})

    @property
    def lost(self) -> bool:
        return self.ended.is_set()

    def die(self) -> None:
        """End by itself. What it used on the host is still there."""
        self.ended.set()
        self.processes.lose_all()

    async def identify(self, identity: Identity) -> None:
        await self._host.before("identify", self.id)
        self.identity = identity
        self.token = identity.token

    @asynccontextmanager
    async def dial(self, port: int) -> AsyncGenerator[Connection]:
        """Nothing ever listens in such a machine."""
        raise NothingListens
        yield

    async def rest(self) -> None:
        await self._host.before("rest", self.id)
        self.rests += 1

    async def save(self, folder: Path, *, memory: bool = True, go_on: bool = True) -> None:
        await self._host.before("save", self.id)
        self.paused = True
        try:
            await asyncio.to_thread(self._write_save, folder, memory=memory)
            await self._host.before("saved", self.id)
        except BaseException:
            self.paused = False
            raise
        self.paused = not go_on

    def _write_save(self, folder: Path, *, memory: bool) -> None:
        folder.mkdir()
        (folder / LAYER).mkdir()
        for name, text in self.writable.items():
            path = folder / LAYER / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if memory:
            (folder / MEMORY).mkdir()
            (folder / MEMORY / "image").write_text(self._host.remember(self))

    async def go_on(self) -> None:
        await self._host.before("go_on", self.id)
        self.paused = False

    async def set_limits(self, limits: Limits) -> None:
        await self._host.before("set_limits", self.id)
        self.limits = limits

    async def set_egress(self, mode: EgressMode) -> None:
        await self._host.before("set_egress", self.id)
        self.egress = mode

    async def resize(self, limits: Limits) -> None:
        await self._host.before("resize", self.id)
        if limits.memory_bytes < self.memory_bytes:
            raise Conflict
        self.limits = limits
        await self._host.before("resized", self.id)

    async def usage(self) -> Usage:
        await self._host.before("usage", self.id)
        return Usage(self.memory_bytes, self.cpu_seconds, 3, 0, 0)

    async def wait(self) -> str:
        await self.ended.wait()
        return "exited"

    async def detach(self) -> None:
        self.detached = True

    async def stop(self) -> None:
        await self._host.before("stop", self.id)
        self._host.machines.pop(self.id, None)
        self.die()


class MemoryHost:
    """Implements Machines, and HostGauge.

    `before` is called ahead of each step, "start", "started", "identify", "set_limits",
    "set_egress", "resize", "resized" (not told yet), "usage", "rest", "save", "saved" (not told yet),
    "go_on", "stop", "adopt", "survey" and "discard", and may raise, wait, or do what interferes.
    """

    def __init__(self, capabilities: Capabilities = NO_SNAPSHOTS) -> None:
        self.machines: dict[MachineId, MemoryMachine] = {}
        self.started: list[MachineSpec] = []
        self.addresses = itertools.count(1)
        self.memories: list[dict[str, MemoryProcess]] = []
        self.capabilities = capabilities
        self.image_version = "memory-1"
        self.before: Step = _nothing
        self.start_seconds = 0.0
        self.most_at_once = 0
        self.free = HostLoad(20 * GIB, 32 * GIB, 500 * GIB, 1000 * GIB, 0)
        self._starting = 0

    async def start(self, spec: MachineSpec, *, guest_token: str) -> MemoryMachine:
        self._starting += 1
        self.most_at_once = max(self.most_at_once, self._starting)
        try:
            await self.before("start", spec.id)
            self.started.append(spec)
            await asyncio.sleep(self.start_seconds)
            machine = self.machines[spec.id] = MemoryMachine(self, spec, guest_token)
            machine.processes.by_id = self._remembered(spec.memory_image)
            try:
                await self.before("started", spec.id)
            except BaseException:
                del self.machines[spec.id]
                raise
            return machine
        finally:
            self._starting -= 1

    def remember(self, machine: MemoryMachine) -> str:
        """Keep what a machine has in memory. Returns what its memory image consists of."""
        self.memories.append({name: each.copy() for name, each in machine.processes.by_id.items()})
        return str(len(self.memories))

    def _remembered(self, image: Path | None) -> dict[str, MemoryProcess]:
        number = None if image is None else image / "image"
        if number is None or not number.exists():
            return {}
        found = self.memories[int(number.read_text()) - 1]
        return {name: each.copy() for name, each in found.items()}

    async def adopt(self, record: DriverRecord, *, guest_token: str) -> MemoryMachine | None:
        await self.before("adopt", record.machine_id)
        machine = self.machines.get(record.machine_id)
        if machine is None or machine.lost or machine.token != guest_token:
            return None
        machine.detached = False
        return machine

    async def survey(self) -> Sequence[MachineId]:
        await self.before("survey", MachineId(""))
        return list(self.machines)

    async def discard(self, machine_id: MachineId) -> None:
        await self.before("discard", machine_id)
        machine = self.machines.pop(machine_id, None)
        if machine is not None:
            machine.die()

    def load(self, machines: int) -> HostLoad:
        return replace(self.free, machines=machines)
