"""All services of a node, over stores and machines in memory, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from collections.abc import Collection as AnyCollection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from opencomputer.server.contracts.driver import DriverRecord, Limits, MachineSpec
from opencomputer.server.contracts.secrets import SecretTables
from opencomputer.server.contracts.stores import MachineRow, MachineState
from opencomputer.server.contracts.templates import TemplateLayers
from opencomputer.server.domain.capacity import AdmissionPolicy, PoolPolicy
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.domain.snapshot import Snapshot, SnapshotKind
from opencomputer.server.services.access import Access
from opencomputer.server.services.background import Background
from opencomputer.server.services.reconciler import Reconciler
from opencomputer.server.services.sandboxes.admission import Admission
from opencomputer.server.services.sandboxes.autoscaling import Autoscaling
from opencomputer.server.services.sandboxes.boot import Boot, machine_limits
from opencomputer.server.services.sandboxes.capture import Captures
from opencomputer.server.services.sandboxes.checkpoints import NewCheckpoint
from opencomputer.server.services.sandboxes.collection import Collection
from opencomputer.server.services.sandboxes.commands import Commands
from opencomputer.server.services.sandboxes.egress import Egress
from opencomputer.server.services.sandboxes.golden import GoldenImages
from opencomputer.server.services.sandboxes.idle import IdleTimeouts
from opencomputer.server.services.sandboxes.lifecycle import Lifecycle, NewSandbox
from opencomputer.server.services.sandboxes.live import LiveSandbox, LiveSandboxes
from opencomputer.server.services.sandboxes.machinery import Machinery
from opencomputer.server.services.sandboxes.operations import operations
from opencomputer.server.services.sandboxes.pool import Pool, PoolSettings
from opencomputer.server.services.sandboxes.provisioning import Provisioning
from opencomputer.server.services.sandboxes.scaling import Scaling
from opencomputer.server.services.sandboxes.sealing import Sealings
from opencomputer.server.services.sandboxes.secret_upkeep import SecretUpkeep
from opencomputer.server.services.sandboxes.transitions import Transitions
from opencomputer.server.services.secret_stores import SecretStores
from opencomputer.wire.ids import OrgId
from tests.support import rows
from tests.support.memory.access import MemoryApiKeys, MemoryOrganisations
from tests.support.memory.artefacts import MemoryArtefacts
from tests.support.memory.machines import MemoryHost, MemoryMachine
from tests.support.memory.patches import MemoryPatches
from tests.support.memory.secrets import (
    MemoryHoldingRows,
    MemorySecretRows,
    MemorySecretStoreRows,
    PlainKeyring,
    RecordingGate,
)
from tests.support.memory.stores import (
    MemoryMachineRows,
    MemorySandboxes,
    MemorySnapshots,
    Tables,
)
from tests.support.memory.usage import MemoryUsage
from tests.support.virtual_time import VirtualClock

ORG = OrgId("org-1")
OTHER_ORG = OrgId("org-2")
BASE = TemplateLayers("base", "h1", (Path("/layers/base"),))
LIMITS: Limits = machine_limits(rows.SHAPE)
NO_POOL = PoolPolicy(memory_share=0.1, machine_bytes=1 << 20, minimum=0, maximum=0)
SECRET = b"a token secret of thirty-two bytes"


class MemoryTemplates:
    """Implements TemplateCatalogue."""

    def __init__(self, *templates: TemplateLayers) -> None:
        self.templates = list(templates)
        self.old: list[TemplateLayers] = []

    def list(self) -> Sequence[TemplateLayers]:
        return list(self.templates)

    def get(self, name: str) -> TemplateLayers | None:
        return next((each for each in self.templates if each.name == name), None)

    def find(self, name: str, hash: str) -> TemplateLayers | None:
        return next((each for each in [*self.templates, *self.old] if each.hash == hash), None)

    def prune(self, wanted_hashes: AnyCollection[str]) -> Sequence[str]:
        gone = [each.hash for each in self.old if each.hash not in wanted_hashes]
        self.old = [each for each in self.old if each.hash in wanted_hashes]
        return gone


def pool_of(size: int) -> PoolPolicy:
    """Keep exactly so many ready, whatever the demand."""
    return PoolPolicy(memory_share=0.9, machine_bytes=1 << 20, minimum=size, maximum=size)


def new_sandbox(**changes: object) -> NewSandbox:
    request = NewSandbox(
        template="base",
        shape=rows.SHAPE,
        timeout_seconds=0,
        environment={"GREETING": "hello"},
        metadata={},
        alias=None,
        network_enabled=True,
        idempotency_key=None,
        request_hash="hash",
    )
    return replace(request, **changes)  # pyright: ignore[reportArgumentType] - names are fields


@dataclass
class Node:
    """What survives a server process: the store and the host. `process` is one life of the server."""

    folder: Path
    tables: Tables = field(default_factory=Tables)
    host: MemoryHost = field(default_factory=MemoryHost)
    templates: MemoryTemplates = field(default_factory=lambda: MemoryTemplates(BASE))
    policy: PoolPolicy = NO_POOL
    parallel_starts: int = 2
    concurrency_limit: int | None = None
    memory_cap_mb: int | None = None
    keyring: PlainKeyring = field(default_factory=PlainKeyring)

    def sandbox(self, sandbox: Sandbox) -> Sandbox:
        """The row as it is now."""
        return self.tables.sandboxes[sandbox.id]

    def machine_of(self, sandbox: Sandbox) -> MemoryMachine:
        (machine,) = (
            each
            for each in self.host.machines.values()
            if each.identity is not None and each.identity.sandbox_id == sandbox.id
        )
        return machine

    @asynccontextmanager
    async def process(self, *, recover: bool = False) -> AsyncGenerator[Process]:
        """Run the services, with a pool; leave in the order a node does."""
        async with Background() as background:
            process = Process(self, background)
            async with process.pool:
                if recover:
                    await process.reconciler.recover(await process.reconciler.look())
                yield process
            await process.lifecycle.detach()


class Process:
    """The services of one life of the server, wired as `composition.py` wires them."""

    def __init__(self, node: Node, background: Background) -> None:
        clock = VirtualClock()
        self._node = node
        self.clock = clock
        self.background = background
        self.sandboxes = MemorySandboxes(node.tables)
        self.snapshots = MemorySnapshots(node.tables)
        self.rows = MemoryMachineRows(node.tables)
        self.ledger = MemoryUsage(node.tables)
        self.keys = MemoryApiKeys(node.tables)
        self.access = Access(MemoryOrganisations(node.tables), self.keys, clock, SECRET)
        self.artefacts = MemoryArtefacts(node.folder / "artefacts")
        self._seal(node)
        self.provisioning = Provisioning(node.host, self.rows, clock, self.egress)
        self.golden = GoldenImages(node.folder / "golden", node.host, self.provisioning, self.artefacts)
        self.admission = Admission(
            AdmissionPolicy(1 << 20), node.host, self.provisioning, parallel_starts=node.parallel_starts
        )
        settings = PoolSettings(node.policy, LIMITS, node.parallel_starts)
        self.pool = Pool(settings, self.provisioning, self.golden, self.admission, node.host, clock)
        self.boot = Boot(self.pool, self.provisioning, self.admission, node.templates, self.artefacts)
        self.captures = Captures(self.artefacts, self.provisioning)
        self.live = LiveSandboxes()
        self.transitions = Transitions()
        self.lifecycle = Lifecycle(
            self.sandboxes,
            self.live,
            self.boot,
            self.provisioning,
            node.templates,
            self.snapshots,
            self.transitions,
            clock,
            background,
            concurrency_limit=node.concurrency_limit,
        )
        self.commands = Commands(clock, background)
        self._operate(node)

    def _seal(self, node: Node) -> None:
        """Gate and rules are this process's own; stores and keyring outlive it."""
        holdings = MemoryHoldingRows(node.tables)
        tables = SecretTables(MemorySecretStoreRows(node.tables), MemorySecretRows(node.tables), holdings)
        self.gate = RecordingGate()
        self.egress = Egress(self.gate, holdings, node.keyring)
        self.sealings = Sealings(holdings)
        self.secret_stores = SecretStores(tables, node.keyring, self.egress, self.clock)
        self.secret_upkeep = SecretUpkeep(holdings, self.clock)

    def _operate(self, node: Node) -> None:
        machinery = Machinery(
            sandboxes=self.sandboxes,
            snapshots=self.snapshots,
            artefacts=self.artefacts,
            templates=node.templates,
            provisioning=self.provisioning,
            boot=self.boot,
            captures=self.captures,
            live=self.live,
            transitions=self.transitions,
            lifecycle=self.lifecycle,
            sealings=self.sealings,
            clock=self.clock,
            background=self.background,
            concurrency_limit=node.concurrency_limit,
        )
        made = operations(machinery, MemoryPatches(node.tables))
        self.checkpoints, self.forks, self.restores = made.checkpoints, made.forks, made.restores
        self.hibernation, self.reach, self.power = made.hibernation, made.reach, made.power
        self.patches, self.diffs = made.patches, made.diffs
        self.scaling = Scaling(machinery, self.admission, node.memory_cap_mb)
        self.autoscaling = Autoscaling(machinery, self.scaling, node.memory_cap_mb)
        self.idle = IdleTimeouts(self.sandboxes, self.live, self.hibernation, self.clock, self.background)
        self.collection = Collection(self.artefacts, self.snapshots, self.golden, node.templates, self.clock)
        self.reconciler = Reconciler(machinery, self.pool, self.golden, self.ledger)

    async def create(self, **changes: object) -> Sandbox:
        return (await self.lifecycle.create(ORG, new_sandbox(**changes))).sandbox

    async def checkpoint(
        self, sandbox: Sandbox, kind: SnapshotKind = SnapshotKind.FULL, name: str | None = None
    ) -> Snapshot:
        """One that is ready."""
        name = name or f"number {len(self._node.tables.snapshots)}"
        created = await self.checkpoints.create(ORG, sandbox.id, NewCheckpoint(name, kind))
        return await self.checkpoints.usable(ORG, created.id)

    async def asleep(self, **changes: object) -> Sandbox:
        """A sandbox that sleeps."""
        sandbox = await self.create(**changes)
        await self.hibernation.hibernate(ORG, sandbox.id)
        await settle()
        return self._node.sandbox(sandbox)

    async def live_one(self) -> LiveSandbox:
        sandbox = await self.create()
        return await self.reach.live(ORG, sandbox.id)


def on(step: str, act: BaseException | Callable[[], Awaitable[object]], *, times: int = 1000) -> Any:
    """A hook for machines, artefacts or tables: fail, or do something, ahead of one kind of step."""
    left = [times]

    async def before(name: str, *_about: object) -> None:
        if name != step or not left[0]:
            return
        left[0] -= 1
        if isinstance(act, BaseException):
            raise act
        await act()

    return before


async def settle(seconds: float = 1.0) -> None:
    """Let virtual time pass, and everything that is due in it."""
    await asyncio.sleep(seconds)


def ready(pool: Pool) -> int:
    return sum(pool.sizes().values())


def exists(node: Node, row: MachineRow) -> MemoryMachine:
    """Put a machine on the host, as an earlier process left it."""
    machine = MemoryMachine(node.host, MachineSpec(row.id, BASE.layers, LIMITS, "t"), row.guest_token)
    node.host.machines[row.id] = machine
    return machine


def record(row: MachineRow) -> MachineRow:
    return replace(row, record=DriverRecord("memory", row.id, {}))


def left(
    node: Node, state: MachineState, sandbox_state: SandboxState | None, *, on_host: bool = True
) -> tuple[MachineRow, Sandbox | None]:
    """A machine row, the sandbox it belongs to, and the machine itself: what an earlier process left."""
    row = rows.machine(state=state)
    if state is not MachineState.STARTING:
        row = record(row)
    sandbox = None
    if sandbox_state is not None:
        sandbox = rows.sandbox(ORG, state=sandbox_state, machine_id=row.id)
        node.tables.sandboxes[sandbox.id] = sandbox
        row = replace(row, sandbox_id=sandbox.id)
    node.tables.machines[row.id] = row
    if on_host:
        exists(node, row)
    return row, sandbox
