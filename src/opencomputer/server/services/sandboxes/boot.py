"""Machines for sandboxes: from the pool, or from what was saved of another machine."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import uuid
from dataclasses import dataclass
from pathlib import Path

import structlog

from opencomputer.server.contracts.artefacts import Artefacts
from opencomputer.server.contracts.driver import Limits, MachineSpec
from opencomputer.server.contracts.machine import Identity, Machine
from opencomputer.server.contracts.stores import SandboxFields
from opencomputer.server.contracts.templates import TemplateCatalogue, TemplateLayers
from opencomputer.server.domain import naming
from opencomputer.server.domain.egress import EgressMode
from opencomputer.server.domain.errors import (
    ArtefactDamaged,
    ArtefactMissing,
    GuestFault,
    MachineLost,
    StartFailed,
)
from opencomputer.server.domain.layers import LayerId
from opencomputer.server.domain.sandbox import Sandbox, SandboxShape
from opencomputer.server.domain.snapshot import SavedMemory
from opencomputer.server.services.sandboxes.admission import Admission
from opencomputer.server.services.sandboxes.egress import Surroundings
from opencomputer.server.services.sandboxes.pool import Pool
from opencomputer.server.services.sandboxes.provisioning import Provisioning

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class MemoryFolder:
    """A memory image as a machine can start from it. `path` as in `MachineSpec.memory_image`."""

    path: Path
    guest_token: str


@dataclass(frozen=True)
class Booted:
    """`memory_restored` False: the machine was started cold, its processes are not there."""

    machine: Machine
    memory_restored: bool


def machine_limits(shape: SandboxShape) -> Limits:
    return Limits(
        memory_bytes=shape.memory_mb << 20, cpu_percent=100 * shape.cpu_count, disk_bytes=shape.disk_mb << 20
    )


@dataclass(frozen=True)
class _Introduction:
    """`mode` is what the machine is let out by so far; the others are as in `Identity`."""

    mode: EgressMode
    new_boot: bool
    copied: bool


class Boot:
    """Every way to a machine that is a sandbox's own. On failure, cancellation included, there is none."""

    def __init__(
        self,
        pool: Pool,
        provisioning: Provisioning,
        admission: Admission,
        templates: TemplateCatalogue,
        artefacts: Artefacts,
    ) -> None:
        self._pool = pool
        self._provisioning = provisioning
        self._admission = admission
        self._templates = templates
        self._artefacts = artefacts

    async def fresh(self, sandbox: Sandbox, template: TemplateLayers) -> Machine:
        """A machine of a template. One that ends just when it is claimed is replaced once."""
        try:
            return await self._claim(sandbox, template)
        except MachineLost:
            _log.warning("a machine ended while it was claimed; taking another", sandbox=sandbox.id)
        try:
            return await self._claim(sandbox, template)
        except MachineLost as error:
            raise StartFailed from error

    async def saved(
        self, sandbox: Sandbox, layers: tuple[LayerId, ...], memory: SavedMemory | None, *, copied: bool
    ) -> Booted:
        """A machine that goes on from what was saved, or one started cold on the same files when its memory
        cannot be used. `copied` as in `Identity`."""
        if memory is not None:
            try:
                return Booted(await self.restored(sandbox, layers, memory, copied=copied), True)
            except (ArtefactDamaged, ArtefactMissing, StartFailed) as error:
                _log.warning("memory cannot be restored; starting cold", sandbox=sandbox.id, error=str(error))
        return Booted(await self.cold(sandbox, layers, copied=copied), False)

    async def restored(
        self, sandbox: Sandbox, layers: tuple[LayerId, ...], memory: SavedMemory, *, copied: bool
    ) -> Machine:
        """A machine that goes on from a kept memory image, and nothing less."""
        if memory.image_version != self._provisioning.image_version:
            raise StartFailed("the memory image was made by another version of this server or of its runtime")
        folder = MemoryFolder(await self._artefacts.memory(memory.id), memory.guest_token)
        return await self.continued(sandbox, layers, folder, copied=copied)

    async def continued(
        self, sandbox: Sandbox, layers: tuple[LayerId, ...], memory: MemoryFolder, *, copied: bool
    ) -> Machine:
        """A machine that goes on from a memory image in a folder."""
        return await self._start(sandbox, layers, memory, copied=copied)

    async def cold(self, sandbox: Sandbox, layers: tuple[LayerId, ...], *, copied: bool = False) -> Machine:
        """A machine that boots on saved files."""
        return await self._start(sandbox, layers, None, copied=copied)

    async def _start(
        self, sandbox: Sandbox, layers: tuple[LayerId, ...], memory: MemoryFolder | None, *, copied: bool
    ) -> Machine:
        template = self._templates.find(sandbox.template, sandbox.template_hash)
        if template is None:
            raise ArtefactMissing(f"the build of template {sandbox.template!r} this was made from is gone")
        folders = [await self._artefacts.layer(layer) for layer in layers]
        token = naming.new_guest_token() if memory is None else memory.guest_token
        mode = _first_mode(sandbox)
        spec = MachineSpec(
            id=self._provisioning.new_id(),
            layers=(*template.layers, *folders),
            limits=machine_limits(sandbox.shape),
            token=token,
            memory_image=None if memory is None else memory.path,
            egress=mode,
        )
        try:
            async with self._admission.place():
                machine = await self._provisioning.start(
                    spec, sandbox.template_hash, guest_token=token, sandbox_id=sandbox.id, layers=layers
                )
            about = _Introduction(mode, new_boot=copied or memory is None, copied=copied)
            await self._introduce(machine, sandbox, layers, about)
        except (MachineLost, GuestFault) as error:
            raise StartFailed from error
        return machine

    async def _introduce(
        self, machine: Machine, sandbox: Sandbox, layers: tuple[LayerId, ...], about: _Introduction
    ) -> None:
        """Tell a machine whose it is, and write it down. On failure the machine is gone."""
        try:
            token = naming.new_guest_token()
            # Processes are held until they are told who they are: none of them sees other rules than these.
            surroundings = await self._provisioning.admit(machine, sandbox, about.mode)
            await machine.identify(_identity(sandbox, token, surroundings, about))
            # Only now: until then the sandbox has the machine it had before, or none.
            await self._provisioning.claim(machine, sandbox.id, token, facts_of_machine(sandbox, layers))
        except BaseException:
            await asyncio.shield(self._provisioning.stop(machine))
            raise

    async def _claim(self, sandbox: Sandbox, template: TemplateLayers) -> Machine:
        machine = await self._pool.claim(template, machine_limits(sandbox.shape))
        await self.give(sandbox, machine)
        return machine

    async def give(self, sandbox: Sandbox, machine: Machine) -> None:
        """Give a machine that nobody has used so far to a sandbox. On failure the machine is gone."""
        limits = machine_limits(sandbox.shape)
        try:
            token = naming.new_guest_token()
            await machine.set_limits(limits)
            layers = self._provisioning.layers(machine)
            fields: SandboxFields = {"layers": layers, "origin_layers": layers}
            await self._provisioning.claim(machine, sandbox.id, token, fields)
            surroundings = await self._provisioning.admit(machine, sandbox, EgressMode.OPEN)
            about = _Introduction(EgressMode.OPEN, new_boot=True, copied=True)
            await machine.identify(_identity(sandbox, token, surroundings, about))
        except BaseException:
            await asyncio.shield(self._provisioning.stop(machine))
            raise


def _first_mode(sandbox: Sandbox) -> EgressMode:
    """What a machine starts with. Until it is known what a sandbox with rules may, nothing gets out."""
    ruled = sandbox.secret_stores or sandbox.egress_allowlist or not sandbox.network_enabled
    return EgressMode.CLOSED if ruled else EgressMode.OPEN


def facts_of_machine(sandbox: Sandbox, layers: tuple[LayerId, ...]) -> SandboxFields:
    """What is only true of a sandbox together with this machine of it."""
    return {
        "layers": layers,
        "shape": sandbox.shape,
        "generation": sandbox.generation,
        "patch_position": sandbox.patch_position,
    }


def _identity(sandbox: Sandbox, token: str, surroundings: Surroundings, about: _Introduction) -> Identity:
    return Identity(
        sandbox_id=sandbox.id,
        hostname=sandbox.id,
        machine_id=_machine_id(sandbox),
        token=token,
        entropy=secrets.token_bytes(64),
        environment={**surroundings.environment, **sandbox.environment},
        workdir=sandbox.workdir,
        boot_id=str(uuid.uuid4()) if about.new_boot else None,
        generation=sandbox.generation,
        memory_bytes=sandbox.shape.memory_mb << 20,
        processors=sandbox.shape.cpu_count,
        copied=about.copied,
        trust=surroundings.trust,
    )


def _machine_id(sandbox: Sandbox) -> str:
    """The same through every sleep, reboot and restore of the sandbox, and no other sandbox's."""
    return hashlib.sha256(f"machine-id\0{sandbox.id}".encode()).hexdigest()[:32]
