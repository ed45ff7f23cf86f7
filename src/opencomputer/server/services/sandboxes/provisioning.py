"""Machines with a row each, written before anything exists and removed after everything is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.driver import MachineId, MachineSpec
from opencomputer.server.contracts.machine import Machine, Machines
from opencomputer.server.contracts.stores import MachineRow, MachineState, MachineStore, SandboxFields
from opencomputer.server.domain import naming
from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.domain.errors import MachineLost
from opencomputer.server.domain.layers import LayerId
from opencomputer.server.domain.sandbox import Sandbox
from opencomputer.server.services.sandboxes.egress import Egress, Surroundings
from opencomputer.wire.ids import SandboxId

_log = structlog.get_logger(__name__)


class Provisioning:
    """The only code that starts, claims and ends machines."""

    def __init__(self, machines: Machines, store: MachineStore, clock: Clock, egress: Egress) -> None:
        self._machines = machines
        self._store = store
        self._clock = clock
        self._egress = egress
        self._count = 0
        self._tokens: dict[MachineId, str] = {}
        self._layers: dict[MachineId, tuple[LayerId, ...]] = {}
        self._stops_under_way: set[MachineId] = set()
        self._stops_failed: set[MachineId] = set()

    @property
    def count(self) -> int:
        """Machines that exist or are being made by this process."""
        return self._count

    @property
    def image_version(self) -> str:
        return self._machines.image_version

    def new_id(self) -> MachineId:
        return MachineId(naming.new_machine_id())

    def guest_token(self, machine: Machine) -> str:
        """What the machine's guest accepts at present: a memory image of it will want to be told the same.

        Raises MachineLost when the machine was stopped."""
        try:
            return self._tokens[machine.id]
        except KeyError:
            raise MachineLost from None

    def layers(self, machine: Machine) -> tuple[LayerId, ...]:
        """The kept layers that the machine stands on."""
        return self._layers[machine.id]

    async def start(
        self,
        spec: MachineSpec,
        template_hash: str,
        *,
        guest_token: str,
        sandbox_id: SandboxId | None = None,
        layers: tuple[LayerId, ...] = (),
    ) -> Machine:
        """Start a machine. `layers` are those of the spec that are kept, above the template's.

        With `sandbox_id` it is meant for that sandbox alone: should the server be killed before it is claimed
        it is removed, not kept for others.
        """
        row = MachineRow(
            id=spec.id,
            state=MachineState.STARTING,
            template_hash=template_hash,
            image_version=self._machines.image_version,
            guest_token=guest_token,
            created_at=self._clock.now(),
            sandbox_id=sandbox_id,
            layers=layers,
        )
        self._count += 1
        try:
            await self._store.add(row)
            machine = await self._machines.start(spec, guest_token=guest_token)
        except BaseException:
            self._count -= 1
            await asyncio.shield(self._store.remove(spec.id))
            raise
        self._remember(machine, row)
        try:
            await self._store.ready(spec.id, machine.record)
        except BaseException:
            await self.stop(machine)
            raise
        return machine

    def _remember(self, machine: Machine, row: MachineRow) -> None:
        self._tokens[machine.id] = row.guest_token
        self._layers[machine.id] = row.layers

    async def admit(self, machine: Machine, sandbox: Sandbox, mode: EgressMode | None = None) -> Surroundings:
        """Let a machine out as its sandbox may: as `Egress.admit`."""
        return await self._egress.admit(machine, sandbox, mode)

    async def claim(
        self,
        machine: Machine,
        sandbox_id: SandboxId,
        guest_token: str,
        fields: SandboxFields | None = None,
    ) -> None:
        """Give a machine to a sandbox. `fields` of the sandbox change at the same moment."""
        await self._store.claim(machine.id, sandbox_id, guest_token, fields)
        self._tokens[machine.id] = guest_token

    async def stop(self, machine: Machine) -> None:
        """End a machine and forget it. Idempotent. What goes wrong is left to the reconciler."""
        self._stops_under_way.add(machine.id)
        # Its address is still its own.
        self._egress.dismiss(machine)
        try:
            await self._store.stopping(machine.id)
            await machine.stop()
            await self._store.remove(machine.id)
        except Exception:
            _log.exception("a machine could not be removed; it will be tried again", machine=machine.id)
            self._stops_failed.add(machine.id)
        finally:
            self._count -= self._tokens.pop(machine.id, None) is not None
            self._layers.pop(machine.id, None)
            self._stops_under_way.discard(machine.id)

    async def rows(self) -> Sequence[MachineRow]:
        return await self._store.list()

    async def unfinished_stops(self) -> Sequence[MachineId]:
        """Machines that should be gone, and that nobody is removing."""
        rows = await self._store.list()
        failed = [
            row.id for row in rows if row.state is MachineState.STOPPING or row.id in self._stops_failed
        ]
        return [machine_id for machine_id in failed if machine_id not in self._stops_under_way]

    async def adopt(self, row: MachineRow) -> Machine | None:
        """Take over a machine of an earlier process, or remove what is left of it."""
        machine = None
        if row.record is not None:
            machine = await self._machines.adopt(row.record, guest_token=row.guest_token)
        if machine is None:
            await self.discard(row.id)
            return None
        self._count += 1
        self._remember(machine, row)
        return machine

    async def give_up(self, machine_id: MachineId) -> None:
        """Leave a machine to the reconciler, to be removed when that is possible."""
        await self._store.stopping(machine_id)

    async def discard(self, machine_id: MachineId) -> None:
        await self._machines.discard(machine_id)
        await self._store.remove(machine_id)
        self._stops_failed.discard(machine_id)

    async def strangers(self) -> Sequence[MachineId]:
        """Machines on this host that have no row. A row is always written first, so they are orphans."""
        present = await self._machines.survey()
        known = {row.id for row in await self._store.list()}
        return [machine_id for machine_id in present if machine_id not in known]
