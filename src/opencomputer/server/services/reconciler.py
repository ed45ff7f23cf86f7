"""Wanted versus actual: after a start, and every minute. The only code that removes strangers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.driver import MachineId
from opencomputer.server.contracts.stores import MachineRow, MachineState, SandboxStore
from opencomputer.server.contracts.templates import TemplateCatalogue
from opencomputer.server.domain.sandbox import Sandbox, SandboxState, StopReason
from opencomputer.server.services.sandboxes.golden import GoldenImages
from opencomputer.server.services.sandboxes.lifecycle import Lifecycle
from opencomputer.server.services.sandboxes.pool import Pool
from opencomputer.server.services.sandboxes.provisioning import Provisioning
from opencomputer.wire.ids import SandboxId

_log = structlog.get_logger(__name__)

_SWEEP_SECONDS = 60.0
_ADOPTIONS_AT_ONCE = 8


@dataclass(frozen=True)
class Found:
    """What the store said before this process began anything of its own."""

    machines: Sequence[MachineRow]
    running: Mapping[SandboxId, Sandbox]
    creating: Sequence[Sandbox]


class Reconciler:
    """Brings the host and the store together again."""

    def __init__(
        self,
        sandboxes: SandboxStore,
        provisioning: Provisioning,
        lifecycle: Lifecycle,
        pool: Pool,
        golden: GoldenImages,
        templates: TemplateCatalogue,
        clock: Clock,
    ) -> None:
        self._sandboxes = sandboxes
        self._provisioning = provisioning
        self._lifecycle = lifecycle
        self._pool = pool
        self._golden = golden
        self._templates = templates
        self._clock = clock

    async def look(self) -> Found:
        """See what earlier processes left. Comes before requests are taken: what those make is none of it."""
        running = await self._sandboxes.in_states([SandboxState.RUNNING])
        return Found(
            machines=await self._provisioning.rows(),
            running={sandbox.id: sandbox for sandbox in running},
            creating=await self._sandboxes.in_states([SandboxState.CREATING]),
        )

    async def recover(self, found: Found) -> None:
        """Adopt what runs, finish what was half-done, record what is lost."""
        places = asyncio.Semaphore(_ADOPTIONS_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._recover_row(row, found, places)) for row in found.machines]
        adopted = {task.result() for task in tasks}
        for sandbox in found.running.values():
            if sandbox.id not in adopted:
                await self._record_lost(sandbox)
        for sandbox in found.creating:
            await self._move(sandbox, SandboxState.FAILED, StopReason.START_FAILED)
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
        sandbox = found.running.get(row.sandbox_id) if row.sandbox_id else None
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
        if row.state is MachineState.CLAIMED and sandbox is not None:
            machine = await self._provisioning.adopt(row)
            if machine is not None:
                await self._lifecycle.resume(sandbox, machine)
            return machine is not None
        if row.state is MachineState.READY:
            await self._recover_member(row)
        else:
            await self._provisioning.discard(row.id)
        return False

    async def _recover_member(self, row: MachineRow) -> None:
        template = next((each for each in self._templates.list() if each.hash == row.template_hash), None)
        if template is None or not self._pool.accepts(row, template):
            await self._provisioning.discard(row.id)
            return
        machine = await self._provisioning.adopt(row)
        if machine is not None:
            self._pool.put(template, machine)
            await machine.rest()

    async def _record_lost(self, sandbox: Sandbox) -> None:
        _log.warning("a sandbox was lost while the server was down", sandbox=sandbox.id)
        await self._move(sandbox, SandboxState.STOPPED, StopReason.CRASH)

    async def _move(self, sandbox: Sandbox, state: SandboxState, reason: StopReason) -> None:
        await self._sandboxes.move(sandbox.id, sandbox.state, state, at=self._clock.now(), reason=reason)

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
        while True:
            await self._clock.sleep(_SWEEP_SECONDS)
            try:
                await self._remove_strangers()
                await self._finish_stops()
                self._stock()
            except Exception:
                _log.exception("the sweep did not finish; the next one tries again")

    async def _finish_stops(self) -> None:
        for row in await self._provisioning.rows():
            if row.state is MachineState.STOPPING and row.id not in self._provisioning.stops_under_way:
                await self._discard(row.id)
