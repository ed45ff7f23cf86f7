"""Wanted versus actual: after a start, and every minute. The only code that removes strangers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import structlog

from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.contracts.stores import (
    MachineRow,
    MachineState,
    SandboxFields,
)
from opencomputer.server.contracts.usage import UsageStore
from opencomputer.server.domain.sandbox import ACTIVE, Sandbox, SandboxState, StopReason
from opencomputer.server.domain.snapshot import Snapshot, SnapshotPurpose, SnapshotState
from opencomputer.server.services.repeating import repeat
from opencomputer.server.services.sandboxes.golden import GoldenImages
from opencomputer.server.services.sandboxes.machinery import Machinery
from opencomputer.server.services.sandboxes.pool import Pool
from opencomputer.server.services.sandboxes.scaling import settle_size
from opencomputer.wire.ids import SandboxId

_log = structlog.get_logger(__name__)

_SWEEP_SECONDS = 60.0
_ADOPTIONS_AT_ONCE = 8


@dataclass(frozen=True)
class Found:
    """What the store said before this process began anything of its own."""

    machines: Sequence[MachineRow]
    active: Mapping[SandboxId, Sandbox]
    unfinished: Sequence[Snapshot]
    hibernations: Sequence[Snapshot]
    last_noted: int | None
    """When a process was there last: nobody knows how long after that a machine that is lost ran on."""


class Reconciler:
    """Brings the host and the store together again."""

    def __init__(self, machinery: Machinery, pool: Pool, golden: GoldenImages, usage: UsageStore) -> None:
        self._sandboxes = machinery.sandboxes
        self._snapshots = machinery.snapshots
        self._artefacts = machinery.artefacts
        self._provisioning = machinery.provisioning
        self._lifecycle = machinery.lifecycle
        self._templates = machinery.templates
        self._clock = machinery.clock
        self._pool = pool
        self._golden = golden
        self._usage = usage

    async def look(self) -> Found:
        """See what earlier processes left. Comes before requests are taken: what those make is none of it."""
        active = await self._sandboxes.in_states(sorted(ACTIVE))
        await self._artefacts.clear_drafts()
        return Found(
            machines=await self._provisioning.rows(),
            active={sandbox.id: sandbox for sandbox in active},
            unfinished=await self._snapshots.in_state(SnapshotState.PROCESSING),
            hibernations=await self._snapshots.in_state(SnapshotState.READY, SnapshotPurpose.HIBERNATION),
            last_noted=await self._usage.last_noted(),
        )

    async def recover(self, found: Found) -> None:
        """Adopt what runs, finish what was half-done, record what is lost."""
        places = asyncio.Semaphore(_ADOPTIONS_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._recover_row(row, found, places)) for row in found.machines]
        adopted = {task.result() for task in tasks}
        for sandbox in found.active.values():
            if sandbox.id not in adopted:
                await self._settle(sandbox, found)
        for snapshot in found.unfinished:
            await self._give_up(snapshot)
        for snapshot in found.hibernations:
            await self._remove_if_superfluous(snapshot)
        await self._remove_strangers()
        await self._golden.remove_stale(self._templates.list())
        self._stock()

    def _stock(self) -> None:
        for template in self._templates.list():
            self._pool.stock(template)

    async def _recover_row(
        self, row: MachineRow, found: Found, places: asyncio.Semaphore
    ) -> SandboxId | None:
        """The sandbox that is served again with this machine, if one is."""
        sandbox = found.active.get(row.sandbox_id) if row.sandbox_id else None
        async with places:
            try:
                if await self._recover_machine(row, sandbox) and sandbox is not None:
                    return sandbox.id
            except Exception:
                # One machine that is out of order must keep neither the others nor the node from working.
                _log.exception("a machine could not be recovered; it will be removed", machine=row.id)
                await self._provisioning.give_up(row.id)
        return None

    async def _recover_machine(self, row: MachineRow, sandbox: Sandbox | None) -> bool:
        """True when the sandbox is served again."""
        if row.state is MachineState.CLAIMED and sandbox is not None and _has_machine(sandbox, row.id):
            return await self._adopt(sandbox, row)
        if row.state is MachineState.READY and row.sandbox_id is None:
            await self._recover_member(row)
        else:
            await self._provisioning.discard(row.id)
        return False

    async def _adopt(self, sandbox: Sandbox, row: MachineRow) -> bool:
        """Serve a sandbox with the machine it has. What had begun to change that has not come to its end."""
        machine = await self._provisioning.adopt(row)
        if machine is None:
            return False
        await self._provisioning.admit(machine, sandbox)
        # It may have been paused: for a checkpoint, too, of which its row tells nothing.
        await machine.go_on()
        if sandbox.state is not SandboxState.RUNNING:
            _log.warning("an operation was interrupted; the sandbox runs on", sandbox=sandbox.id)
            await self._move(sandbox, SandboxState.RUNNING)
        sandbox = replace(sandbox, state=SandboxState.RUNNING)
        if sandbox.elasticity.resize_mb is not None:
            _log.warning("a change of size was interrupted", sandbox=sandbox.id)
            sandbox = await settle_size(self._sandboxes, sandbox, machine, self._clock)
        await self._lifecycle.resume(sandbox, machine)
        return True

    async def _recover_member(self, row: MachineRow) -> None:
        template = next((each for each in self._templates.list() if each.hash == row.template_hash), None)
        if template is None or not self._pool.accepts(row, template):
            await self._provisioning.discard(row.id)
            return
        machine = await self._provisioning.adopt(row)
        if machine is not None:
            self._pool.put(template, machine)
            await machine.rest()

    async def _settle(self, sandbox: Sandbox, found: Found) -> None:
        """Record what has become of a sandbox without a machine."""
        if sandbox.state is SandboxState.CREATING:
            await self._move(sandbox, SandboxState.FAILED, StopReason.START_FAILED)
        elif sandbox.state is SandboxState.WAKING:
            await self._move(sandbox, SandboxState.HIBERNATED)
        elif not (sandbox.state is SandboxState.HIBERNATING and await self._fell_asleep(sandbox, found)):
            _log.warning("a sandbox was lost while the server was down", sandbox=sandbox.id)
            await self._stop_lost(sandbox, found)

    async def _stop_lost(self, sandbox: Sandbox, found: Found) -> None:
        """It is taken to have ended when it was last known to run, and counts no longer than that."""
        began = sandbox.started_at or sandbox.created_at
        seen = datetime.fromtimestamp(found.last_noted, UTC) if found.last_noted is not None else None
        ended = self._clock.now() if seen is None else max(began, min(seen, self._clock.now()))
        await self._sandboxes.move(
            sandbox.id, sandbox.state, SandboxState.STOPPED, at=ended, reason=StopReason.CRASH
        )

    async def _fell_asleep(self, sandbox: Sandbox, found: Found) -> bool:
        """Whether all of it had been saved when the server ended, and only that was not written down yet."""
        for snapshot in found.hibernations:
            if snapshot.sandbox_id == sandbox.id and snapshot.id != sandbox.hibernation:
                await self._move(
                    sandbox,
                    SandboxState.HIBERNATED,
                    fields={"hibernation": snapshot.id, "layers": snapshot.origin.layers, "due_at": None},
                )
                return True
        return False

    async def _remove_if_superfluous(self, snapshot: Snapshot) -> None:
        """A sandbox sleeps as one snapshot: what a server that was killed left besides is no use."""
        owner = snapshot.sandbox_id
        sandbox = None if owner is None else await self._sandboxes.get(snapshot.org_id, owner)
        if sandbox is None or sandbox.hibernation != snapshot.id:
            await self._snapshots.remove(snapshot.id)

    async def _give_up(self, snapshot: Snapshot) -> None:
        """What was being saved when the server ended is not complete."""
        if snapshot.purpose is SnapshotPurpose.CHECKPOINT:
            await self._snapshots.fail(snapshot.id, "the server was restarted meanwhile", self._clock.now())
        else:
            await self._snapshots.remove(snapshot.id)

    async def _move(
        self,
        sandbox: Sandbox,
        state: SandboxState,
        reason: StopReason | None = None,
        fields: SandboxFields | None = None,
    ) -> None:
        now = self._clock.now()
        await self._sandboxes.move(sandbox.id, sandbox.state, state, at=now, reason=reason, fields=fields)

    async def _remove_strangers(self) -> None:
        for machine_id in await self._provisioning.strangers():
            _log.warning("removing a machine that nothing remembers", machine=machine_id)
            await self._discard(machine_id)

    async def _discard(self, machine_id: MachineId) -> None:
        try:
            await self._provisioning.discard(machine_id)
        except Exception:
            _log.exception("a machine could not be removed; it will be tried again", machine=machine_id)

    async def keep(self) -> None:
        """Sweep until cancelled. Machines whose removal failed are tried again here."""
        await repeat(
            self._sweep,
            self._clock,
            pause_seconds=_SWEEP_SECONDS,
            complaint="the sweep did not finish; the next one tries again",
        )

    async def _sweep(self) -> None:
        await self._remove_strangers()
        await self._finish_stops()
        self._stock()

    async def _finish_stops(self) -> None:
        for machine_id in await self._provisioning.unfinished_stops():
            await self._discard(machine_id)


def _has_machine(sandbox: Sandbox, machine_id: MachineId) -> bool:
    """Whether this is the machine the sandbox runs on: it may have had one before, or been about to get one.

    One that was created, or woken, has not been told to anybody yet.
    """
    if sandbox.state in (SandboxState.CREATING, SandboxState.WAKING):
        return False
    return sandbox.machine_id == machine_id
