"""Wanted versus actual: after a start, and every minute. The only code that removes strangers."""

from __future__ import annotations

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.machine import Machine
from opencomputer.server.contracts.stores import MachineRow, MachineState, SandboxStore
from opencomputer.server.contracts.templates import TemplateCatalogue
from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.domain.sandbox import Sandbox, SandboxState, StopReason
from opencomputer.server.services.sandboxes.golden import GoldenImages
from opencomputer.server.services.sandboxes.lifecycle import Lifecycle
from opencomputer.server.services.sandboxes.pool import Pool
from opencomputer.server.services.sandboxes.provisioning import Provisioning
from opencomputer.wire.ids import SandboxId

_log = structlog.get_logger(__name__)

_SWEEP_SECONDS = 60.0


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

    async def recover(self) -> None:
        """After a start: adopt what runs, finish what was half-done, record what is lost."""
        running = {each.id: each for each in await self._sandboxes.in_states([SandboxState.RUNNING])}
        adopted: set[SandboxId] = set()
        for row in await self._provisioning.rows():
            sandbox = running.get(row.sandbox_id) if row.sandbox_id else None
            try:
                if await self._recover_machine(row, sandbox) and sandbox is not None:
                    adopted.add(sandbox.id)
            except OpenComputerError as error:
                _log.error("a machine could not be recovered", machine=row.id, error=str(error))
        for sandbox in running.values():
            if sandbox.id not in adopted:
                await self._record_lost(sandbox)
        for sandbox in await self._sandboxes.in_states([SandboxState.CREATING]):
            await self._move(sandbox, SandboxState.FAILED, StopReason.START_FAILED)
        await self.remove_strangers()
        await self._golden.remove_stale(self._templates.list())
        self._stock()

    def _stock(self) -> None:
        for template in self._templates.list():
            self._pool.stock(template)

    async def _recover_machine(self, row: MachineRow, sandbox: Sandbox | None) -> bool:
        """True when the machine is in service again."""
        if row.state is MachineState.CLAIMED and sandbox is not None:
            machine = await self._provisioning.adopt(row)
            if machine is not None:
                self._lifecycle.attend(sandbox, machine)
            return machine is not None
        if row.state is MachineState.READY:
            return await self._recover_member(row)
        await self._provisioning.discard(row.id)
        return False

    async def _recover_member(self, row: MachineRow) -> bool:
        template = next((each for each in self._templates.list() if each.hash == row.template_hash), None)
        if template is None or not self._pool.accepts(row, template):
            await self._provisioning.discard(row.id)
            return False
        machine: Machine | None = await self._provisioning.adopt(row)
        if machine is None:
            return False
        self._pool.put(template, machine)
        await machine.rest()
        return True

    async def _record_lost(self, sandbox: Sandbox) -> None:
        _log.warning("a sandbox was lost while the server was down", sandbox=sandbox.id)
        await self._move(sandbox, SandboxState.STOPPED, StopReason.CRASH)

    async def _move(self, sandbox: Sandbox, state: SandboxState, reason: StopReason) -> None:
        await self._sandboxes.move(sandbox.id, sandbox.state, state, at=self._clock.now(), reason=reason)

    async def remove_strangers(self) -> None:
        for machine_id in await self._provisioning.strangers():
            _log.warning("removing a machine that nothing remembers", machine=machine_id)
            await self._provisioning.discard(machine_id)

    async def keep(self) -> None:
        """Sweep until cancelled. Machines whose removal failed are tried again here."""
        while True:
            await self._clock.sleep(_SWEEP_SECONDS)
            try:
                await self.remove_strangers()
                await self._finish_stops()
                self._stock()
            except OpenComputerError as error:
                _log.error("the sweep did not finish", error=str(error))

    async def _finish_stops(self) -> None:
        for row in await self._provisioning.rows():
            if row.state is MachineState.STOPPING and row.id not in self._provisioning.stops_under_way:
                await self._provisioning.discard(row.id)
