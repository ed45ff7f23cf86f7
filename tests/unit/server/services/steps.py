"""Operations on a sandbox, and what may come in between at each of their steps."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.contracts.stores import MachineState
from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.domain.metering import Meter, counted
from opencomputer.server.domain.sandbox import ACTIVE, Sandbox, SandboxState
from opencomputer.server.domain.snapshot import Snapshot, SnapshotKind, SnapshotPurpose, SnapshotState
from opencomputer.server.services.sandboxes.checkpoints import NewCheckpoint
from opencomputer.server.services.sandboxes.forks import ForkRequest
from opencomputer.server.services.sandboxes.scaling import Size
from tests.support.memory.machines import MemoryHost, MemoryMachine
from tests.support.memory.stores import Tables
from tests.unit.server.services.harness import BASE, ORG, Node, Process

Interference = Callable[[str], Awaitable[None]]


@dataclass
class Stage:
    """A sandbox in the state in which an operation finds it, with a checkpoint of it where one is needed."""

    node: Node
    process: Process
    sandbox: Sandbox
    checkpoint: Snapshot | None = None

    @property
    def row(self) -> Sandbox:
        return self.node.sandbox(self.sandbox)


@dataclass(frozen=True)
class Operation:
    """`work` is done on a stage that `prepare` made ready for it. `state` is the source's afterwards."""

    name: str
    work: Callable[[Stage], Awaitable[object]]
    prepare: Callable[[Stage], Awaitable[object]] | None = None
    state: SandboxState = SandboxState.RUNNING

    def __str__(self) -> str:
        return self.name


async def checkpointed(stage: Stage, kind: SnapshotKind = SnapshotKind.FULL) -> Snapshot:
    """Create a checkpoint and wait until it is ready."""
    checkpoints = stage.process.checkpoints
    name = f"number {len(stage.node.tables.snapshots)}"
    created = await checkpoints.create(ORG, stage.sandbox.id, NewCheckpoint(name, kind))
    return await checkpoints.usable(ORG, created.id)


async def _have_checkpoint(stage: Stage, kind: SnapshotKind = SnapshotKind.FULL) -> None:
    stage.node.machine_of(stage.sandbox).writable["file"] = "of the checkpoint"
    stage.checkpoint = await checkpointed(stage, kind)
    stage.node.machine_of(stage.sandbox).writable["file"] = "later"


async def _restore(stage: Stage) -> None:
    assert stage.checkpoint is not None
    await stage.process.restores.restore(ORG, stage.sandbox.id, stage.checkpoint.id)


async def _fork_checkpoint(stage: Stage) -> None:
    assert stage.checkpoint is not None
    await stage.process.forks.from_checkpoint(ORG, stage.checkpoint.id, ForkRequest())


async def _disk_checkpoint(stage: Stage) -> None:
    await checkpointed(stage, SnapshotKind.DISK_ONLY)


async def _have_disk_checkpoint(stage: Stage) -> None:
    await _have_checkpoint(stage, SnapshotKind.DISK_ONLY)


async def _hibernate(stage: Stage) -> None:
    await stage.process.hibernation.hibernate(ORG, stage.sandbox.id)


async def _wake(stage: Stage) -> None:
    await stage.process.hibernation.wake(ORG, stage.sandbox.id)


async def _fork(stage: Stage) -> None:
    await stage.process.forks.fork(ORG, stage.sandbox.id, 3, ForkRequest())


async def _reboot(stage: Stage) -> None:
    await stage.process.power.reboot(ORG, stage.sandbox.id)


async def _diff(stage: Stage) -> None:
    await stage.process.diffs.diff(ORG, stage.sandbox.id, None)


async def _scale_up(stage: Stage) -> None:
    await stage.process.scaling.scale(ORG, stage.sandbox.id, Size(8192))


async def _scale_down(stage: Stage) -> None:
    await stage.process.scaling.scale(ORG, stage.sandbox.id, Size(1024))


CHECKPOINT = Operation("checkpoint", checkpointed)
DISK_CHECKPOINT = Operation("checkpoint of files", _disk_checkpoint)
FORK_CHECKPOINT = Operation("fork of a checkpoint", _fork_checkpoint, _have_checkpoint)
FORK = Operation("three live forks", _fork)
RESTORE = Operation("restore", _restore, _have_checkpoint)
RESTORE_FILES = Operation("restore of files", _restore, _have_disk_checkpoint)
HIBERNATE = Operation("hibernate", _hibernate, state=SandboxState.HIBERNATED)
WAKE = Operation("wake", _wake, _hibernate)
REBOOT = Operation("reboot", _reboot)
DIFF = Operation("diff", _diff)
SCALE_UP = Operation("larger size", _scale_up)
SCALE_DOWN = Operation("smaller size", _scale_down)
OPERATIONS = [
    CHECKPOINT,
    DISK_CHECKPOINT,
    FORK_CHECKPOINT,
    FORK,
    RESTORE,
    RESTORE_FILES,
    HIBERNATE,
    WAKE,
    REBOOT,
    DIFF,
    SCALE_UP,
    SCALE_DOWN,
]


@asynccontextmanager
async def stage_of(operation: Operation, folder: Path) -> AsyncGenerator[Stage]:
    node = Node(folder)
    async with node.process() as process:
        stage = Stage(node, process, await process.create())
        if operation.prepare is not None:
            await operation.prepare(stage)
        await asyncio.sleep(0.1)
        yield stage


@dataclass
class Steps:
    """Every call to stores, machines and artefacts, in order, from when this is made until `over`.

    `interfere` is called once, ahead of step number `at`, or with None ahead of each. What it does itself is
    no step.
    """

    interfere: Interference | None = None
    at: int | None = None
    taken: list[str] = field(default_factory=list[str])
    over: bool = False
    _busy: bool = False

    def watch(self, stage: Stage) -> Steps:
        async def host(step: str, _machine: MachineId) -> None:
            await self._step(f"host.{step}")

        async def artefacts(step: str, _what: str) -> None:
            await self._step(f"artefacts.{step}")

        stage.node.host.before = host
        stage.process.artefacts.before = artefacts
        stage.node.tables.before = self._step
        return self

    async def _step(self, name: str) -> None:
        if self.over or self._busy:
            return
        self.taken.append(name)
        if self.interfere is None or self.at not in (None, len(self.taken) - 1):
            return
        self._busy = True
        try:
            await self.interfere(name)
        finally:
            self._busy = False


async def steps_of(operation: Operation, folder: Path) -> list[str]:
    """What the operation does when nothing interferes, the work that it leaves behind included."""
    async with stage_of(operation, folder) as stage:
        steps = Steps().watch(stage)
        await operation.work(stage)
        await asyncio.sleep(1)
        steps.over = True
        return steps.taken


@asynccontextmanager
async def interfered(
    operation: Operation, folder: Path, at: int, interfere: Callable[[Stage, str], Awaitable[None]]
) -> AsyncGenerator[tuple[Stage, str, BaseException | None]]:
    """Do the operation with something in between ahead of one step. Yields the step and the outcome, when
    everything has come to rest."""
    async with stage_of(operation, folder) as stage:
        steps = Steps(lambda step: interfere(stage, step), at).watch(stage)
        error: BaseException | None = None
        try:
            await operation.work(stage)
        except (Exception, asyncio.CancelledError) as raised:
            error = raised
        await asyncio.sleep(1)
        steps.over = True
        await sweep(stage.process)
        yield stage, steps.taken[at] if at < len(steps.taken) else "", error


async def sweep(process: Process) -> None:
    """What the reconciler does every minute, once."""
    keeping = asyncio.create_task(process.reconciler.keep())
    await asyncio.sleep(61)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


def crashed(node: Node, folder: Path) -> Node:
    """The node as a server that was killed right now has left it. The original may go on."""
    shutil.copytree(node.folder, folder)
    tables = Tables()
    for table in fields(Tables):
        if table.name != "before":
            setattr(tables, table.name, copy(getattr(node.tables, table.name)))
    host = MemoryHost(node.host.capabilities)
    host.memories = list(node.host.memories)
    for machine_id, machine in node.host.machines.items():
        host.machines[machine_id] = _copy(machine, host)
    return Node(folder, tables, host, node.templates, keyring=node.keyring)


def _copy(machine: MemoryMachine, host: MemoryHost) -> MemoryMachine:
    same = MemoryMachine(host, machine.spec, machine.token)
    same.identity, same.limits, same.paused = machine.identity, machine.limits, machine.paused
    same.writable, same.egress = dict(machine.writable), machine.egress
    if machine.lost:
        same.die()
    return same


def check_count(node: Node) -> None:
    """What counts of each sandbox is what its row says, and no second of it counts twice."""
    for row in node.tables.sandboxes.values():
        mine = [each for each in node.tables.intervals if each.sandbox_id == row.id]
        assert {each.meter: each.megabytes for each in mine if each.end is None} == counted(
            row.state, row.shape
        )
        memory = [each for each in mine if each.meter is Meter.MEMORY]
        for earlier, later in pairwise(memory):
            assert earlier.end is not None
            assert earlier.begin <= earlier.end <= later.begin


def check_rest(node: Node, process: Process, *, tidy: bool = True) -> None:
    """Store, host and services say the same, and nothing is in between. `tidy` False: what only takes room,
    until the next start, may be there."""
    sandboxes = node.tables.sandboxes.values()
    assert {row.state for row in sandboxes} <= {
        SandboxState.RUNNING,
        SandboxState.HIBERNATED,
        SandboxState.STOPPED,
        SandboxState.FAILED,
    }
    running = {row.machine_id: row for row in sandboxes if row.state in ACTIVE}
    assert set(node.host.machines) == set(node.tables.machines) == set(running)
    assert {live.machine.id: live.id for live in process.live} == {
        machine_id: row.id for machine_id, row in running.items()
    }
    assert process.provisioning.count == len(running)
    assert {address: rules.sandbox_id for address, rules in process.gate.rules.items()} == {
        live.machine.address: live.id for live in process.live
    }
    for machine in node.host.machines.values():
        _check_machine(node, machine, running[machine.id])
    assert not any(process.transitions.busy(row.id) for row in sandboxes)
    _check_snapshots(node, process, tidy=tidy)
    if tidy:
        assert process.artefacts.drafts == []


def _check_machine(node: Node, machine: MemoryMachine, sandbox: Sandbox) -> None:
    row = node.tables.machines[machine.id]
    assert (row.state, row.sandbox_id, row.guest_token) == (
        MachineState.CLAIMED,
        sandbox.id,
        machine.token,
    )
    assert not machine.paused
    assert not machine.lost
    assert [path.name for path in machine.spec.layers] == [*(p.name for p in BASE.layers), *sandbox.layers]
    assert machine.limits.memory_bytes == sandbox.shape.memory_mb << 20
    assert sandbox.elasticity.resize_mb is None
    assert machine.identity is not None
    assert (machine.identity.sandbox_id, machine.identity.generation) == (sandbox.id, sandbox.generation)


def _check_snapshots(node: Node, process: Process, *, tidy: bool) -> None:
    snapshots = node.tables.snapshots.values()
    asleep = {row.hibernation for row in node.tables.sandboxes.values() if row.state == "hibernated"}
    hibernations = {each.id for each in snapshots if each.purpose is SnapshotPurpose.HIBERNATION}
    assert asleep <= hibernations
    if tidy:
        assert asleep == hibernations
        assert not [each for each in snapshots if each.state is SnapshotState.PROCESSING]
    for each in snapshots:
        if each.state is SnapshotState.READY:
            assert set(each.origin.layers) <= process.artefacts.layer_ids
            assert each.memory is None or each.memory.id in process.artefacts.memory_ids
    for row in node.tables.sandboxes.values():
        if row.state not in (SandboxState.STOPPED, SandboxState.FAILED):
            assert set(row.layers) | set(row.origin_layers) <= process.artefacts.layer_ids


async def check_use(node: Node, process: Process) -> None:
    """Every sandbox that is not stopped can be used, put to sleep and woken."""
    for row in list(node.tables.sandboxes.values()):
        if row.state in (SandboxState.STOPPED, SandboxState.FAILED):
            continue
        await process.reach.live(ORG, row.id)
        await process.hibernation.hibernate(ORG, row.id)
        assert (await process.hibernation.wake(ORG, row.id)).state is SandboxState.RUNNING


def said(error: BaseException | None) -> str:
    return error.message if isinstance(error, OpenComputerError) else repr(error)
