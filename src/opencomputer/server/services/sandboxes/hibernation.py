"""Hibernate and wake: a sandbox that takes no memory and no processor, and goes on when it is needed.

A sandbox has exactly one snapshot it sleeps as. That is durable before the machine is let go, and stays until
the machine made from it has answered.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from opencomputer.server.contracts.stores import SandboxFields
from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import (
    ArtefactMissing,
    Gone,
    OperationInProgress,
)
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.domain.snapshot import (
    Snapshot,
    SnapshotKind,
    SnapshotPurpose,
    SnapshotState,
    origin_of,
)
from opencomputer.server.services.sandboxes.boot import Booted
from opencomputer.server.services.sandboxes.capture import Captured, let_go_on, reason_of, write_ready
from opencomputer.server.services.sandboxes.deadlines import deadline
from opencomputer.server.services.sandboxes.live import Ending, LiveSandbox
from opencomputer.server.services.sandboxes.machinery import Machinery
from opencomputer.server.services.sandboxes.moves import Moves, settled
from opencomputer.server.services.sandboxes.patches import Patches
from opencomputer.wire.ids import OrgId, SandboxId

_log = structlog.get_logger(__name__)

COLD_BOOT = 2
"""The step of the recovery ladder (behaviour 5.8) at which processes are lost and files are kept."""


@dataclass(frozen=True)
class Hibernated:
    """`size_bytes` is None when it is not known any more: the sandbox was asleep already."""

    sandbox: Sandbox
    size_bytes: int | None = None


class Hibernation:
    """Puts sandboxes to sleep and wakes them. Once begun, either is brought to its end, whoever gives up."""

    def __init__(self, machinery: Machinery, patches: Patches) -> None:
        self._sandboxes = machinery.sandboxes
        self._moves = Moves(machinery.sandboxes, machinery.clock)
        self._snapshots = machinery.snapshots
        self._lifecycle = machinery.lifecycle
        self._live = machinery.live
        self._transitions = machinery.transitions
        self._captures = machinery.captures
        self._boot = machinery.boot
        self._provisioning = machinery.provisioning
        self._patches = patches
        self._clock = machinery.clock
        self._background = machinery.background
        self._concurrency_limit = machinery.concurrency_limit
        self._wakes: dict[SandboxId, asyncio.Task[Sandbox]] = {}

    async def hibernate(self, org_id: OrgId, sandbox_id: SandboxId) -> Hibernated:
        """Save everything and let the machine go. A sandbox that sleeps already stays as it is.

        Raises SnapshotRefused with the runtime's reason, HostDiskFull, OperationInProgress: it runs on then.
        """
        sandbox = await self._lifecycle.get(org_id, sandbox_id)
        if sandbox.state is SandboxState.HIBERNATED:
            return Hibernated(sandbox)
        live = await self._lifecycle.running(org_id, sandbox_id)
        return await self._background.carry_out(self._hibernate(live), name=f"hibernate {sandbox_id}")

    async def hibernate_unused(self, live: LiveSandbox) -> Hibernated:
        """As `hibernate`, unless the sandbox was used since its deadline: then OperationInProgress."""
        work = self._hibernate(live, unused=True)
        return await self._background.carry_out(work, name=f"hibernate {live.id}")

    async def _hibernate(self, live: LiveSandbox, *, unused: bool = False) -> Hibernated:
        with self._transitions.exclusive(live.id, "hibernation", closes=True):
            sandbox = await self._lifecycle.held(live)
            # Looked at again now that nobody new can begin anything.
            if unused and self._is_in_use(live, sandbox):
                raise OperationInProgress("the sandbox is in use")
            if not await self._moves.move(sandbox, SandboxState.RUNNING, SandboxState.HIBERNATING):
                raise Gone
            snapshot = self._new_snapshot(sandbox)
            try:
                captured = await self._save(live, sandbox, snapshot)
                await self._fall_asleep(sandbox, snapshot, captured)
            except BaseException as error:
                await asyncio.shield(self._stay(live, sandbox, snapshot, error))
                raise
            return self._asleep(live, sandbox, snapshot, captured)

    def _is_in_use(self, live: LiveSandbox, sandbox: Sandbox) -> bool:
        # The row's own deadline counts too: the timeout may have been set anew just now.
        dues = (deadline(live.activity.last(), sandbox.timeout_seconds), sandbox.due_at)
        return any(due_at is None or due_at > self._clock.now() for due_at in dues)

    def _new_snapshot(self, sandbox: Sandbox) -> Snapshot:
        return Snapshot(
            id=naming.new_snapshot_id(),
            org_id=sandbox.org_id,
            purpose=SnapshotPurpose.HIBERNATION,
            kind=SnapshotKind.FULL,
            state=SnapshotState.PROCESSING,
            origin=origin_of(sandbox),
            created_at=self._clock.now(),
            sandbox_id=sandbox.id,
        )

    async def _save(self, live: LiveSandbox, sandbox: Sandbox, snapshot: Snapshot) -> Captured:
        await self._snapshots.add(snapshot)
        async with self._captures.saving(live.machine, sandbox.layers, memory=True, go_on=False) as saving:
            captured = await saving.keep(memory=True)
        await write_ready(self._snapshots, snapshot.id, captured, self._clock.now())
        return captured

    async def _stay(
        self, live: LiveSandbox, sandbox: Sandbox, snapshot: Snapshot, error: BaseException
    ) -> None:
        """Run on: never lose a sandbox because it could not be put to sleep (behaviour 4.6)."""
        await let_go_on(live.machine)
        fields: SandboxFields = {"last_hibernate_error": reason_of(error)}
        if not await self._moves.move(sandbox, SandboxState.HIBERNATING, SandboxState.RUNNING, fields=fields):
            _log.info("a sandbox was stopped while it was put to sleep", sandbox=sandbox.id)
        await self._snapshots.remove(snapshot.id)

    async def _fall_asleep(self, sandbox: Sandbox, snapshot: Snapshot, captured: Captured) -> None:
        """The point of no return. Raises Gone."""
        fields: SandboxFields = {
            "hibernation": snapshot.id,
            "layers": captured.layers,
            "due_at": None,
            "hibernate_failures": 0,
            "last_hibernate_error": None,
        }
        if not await self._moves.move(
            sandbox, SandboxState.HIBERNATING, SandboxState.HIBERNATED, fields=fields
        ):
            raise Gone

    def _asleep(
        self, live: LiveSandbox, sandbox: Sandbox, snapshot: Snapshot, captured: Captured
    ) -> Hibernated:
        self._live.remove(live.id, Ending.HIBERNATED)
        machine = live.machine
        self._background.start(self._provisioning.stop(machine), name=f"let go of {machine.id}", finish=True)
        self._forget(sandbox)
        row = replace(
            sandbox, state=SandboxState.HIBERNATED, machine_id=None, hibernation=snapshot.id, due_at=None
        )
        return Hibernated(row, captured.size_bytes)

    def _forget(self, sandbox: Sandbox) -> None:
        """Remove what the sandbox slept as until now. Nothing hangs on it any more: recovery would do it."""
        if sandbox.hibernation is not None:
            work = self._snapshots.remove(sandbox.hibernation)
            self._background.start(work, name=f"forget {sandbox.hibernation}", finish=True)

    async def wake(
        self, org_id: OrgId, sandbox_id: SandboxId, *, timeout_seconds: int | None = None
    ) -> Sandbox:
        """The running sandbox. However many ask at once, it is woken once, and all get the outcome.

        Raises Gone, NoCapacity, ConcurrencyLimit, StartFailed, ArtefactMissing, ArtefactDamaged: it sleeps on
        then.
        """
        sandbox = await self._awake(org_id, sandbox_id)
        if timeout_seconds is None:
            return sandbox
        await self._lifecycle.set_timeout(org_id, sandbox_id, timeout_seconds)
        return await self._lifecycle.get(org_id, sandbox_id)

    async def _awake(self, org_id: OrgId, sandbox_id: SandboxId) -> Sandbox:
        while True:
            await self._transitions.over(sandbox_id)
            sandbox = await self._lifecycle.get(org_id, sandbox_id)
            if sandbox.state is SandboxState.STOPPED:
                raise Gone
            if sandbox.state is not SandboxState.HIBERNATED:
                return sandbox
            # Something else may have begun while the row was read: then it is looked at again after that.
            with suppress(OperationInProgress):
                await self._wake_once(sandbox)

    async def _wake_once(self, sandbox: Sandbox) -> None:
        task = self._wakes.get(sandbox.id)
        if task is None:
            task = self._background.start(self._wake(sandbox), name=f"wake {sandbox.id}", finish=True)
            self._wakes[sandbox.id] = task
            task.add_done_callback(lambda _: self._wakes.pop(sandbox.id))
        await asyncio.shield(task)

    async def _wake(self, sandbox: Sandbox) -> None:
        with self._transitions.exclusive(sandbox.id, "waking", closes=True):
            move = self._sandboxes.move(
                sandbox.id,
                SandboxState.HIBERNATED,
                SandboxState.WAKING,
                at=self._clock.now(),
                concurrency_limit=self._concurrency_limit,
            )
            if not await settled(move, self._sandboxes, sandbox, SandboxState.WAKING):
                return
            booted: Booted | None = None
            try:
                # Read again: its timeout may have changed up to now.
                sandbox = await self._lifecycle.get(sandbox.org_id, sandbox.id)
                booted = await self._boot_again(sandbox)
                row = await self._come_back(sandbox, booted)
            except BaseException:
                await asyncio.shield(self._sleep_on(sandbox, booted))
                raise
            live = self._lifecycle.attend(row, booted.machine)
            self._forget(sandbox)
            self._background.start(self._patches.apply(live), name=f"patch {sandbox.id}")

    async def _boot_again(self, sandbox: Sandbox) -> Booted:
        snapshot = None if sandbox.hibernation is None else await self._snapshots.get(sandbox.hibernation)
        if snapshot is None or snapshot.state is not SnapshotState.READY:
            raise ArtefactMissing("what the sandbox sleeps as is missing")
        return await self._boot.saved(sandbox, snapshot.origin.layers, snapshot.memory, copied=False)

    async def _come_back(self, sandbox: Sandbox, booted: Booted) -> Sandbox:
        """The row of the sandbox as it runs now. Raises Gone."""
        # Its timeout may have changed while the machine was started.
        sandbox = await self._lifecycle.get(sandbox.org_id, sandbox.id)
        due_at = deadline(self._clock.now(), sandbox.timeout_seconds)
        recovered = None if booted.memory_restored else COLD_BOOT
        fields: SandboxFields = {"hibernation": None, "due_at": due_at, "recovered": recovered}
        if not await self._moves.move(sandbox, SandboxState.WAKING, SandboxState.RUNNING, fields=fields):
            raise Gone
        return replace(
            sandbox,
            state=SandboxState.RUNNING,
            machine_id=booted.machine.id,
            hibernation=None,
            due_at=due_at,
            recovered=recovered,
        )

    async def _sleep_on(self, sandbox: Sandbox, booted: Booted | None) -> None:
        if booted is not None:
            await self._provisioning.stop(booted.machine)
        await self._moves.move(sandbox, SandboxState.WAKING, SandboxState.HIBERNATED)
