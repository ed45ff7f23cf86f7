"""Machines in which images are built: hidden, nobody's sandbox, gone when the build is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from opencomputer.server.contracts.artefacts import Artefacts
from opencomputer.server.contracts.driver import MachineSpec
from opencomputer.server.contracts.machine import Machine
from opencomputer.server.contracts.templates import TemplateLayers
from opencomputer.server.domain import naming
from opencomputer.server.domain.layers import LayerId
from opencomputer.server.domain.sandbox import SandboxShape
from opencomputer.server.services.sandboxes.admission import Admission
from opencomputer.server.services.sandboxes.boot import machine_limits
from opencomputer.server.services.sandboxes.provisioning import Provisioning
from opencomputer.server.services.sandboxes.rehearsal import nobody

# Instead of a template's hash on its row: after a crash such a machine is no member for the pool.
_NOBODYS = "image build"


class BuilderMachines(Protocol):
    def running(
        self, template: TemplateLayers, layers: tuple[LayerId, ...], shape: SandboxShape
    ) -> AbstractAsyncContextManager[Machine]:
        """A machine that boots on these files and is gone afterwards, whatever happens.

        Raises NoCapacity, StartFailed, ArtefactMissing, ArtefactDamaged.
        """
        ...


class HiddenMachines:
    """Implements BuilderMachines."""

    def __init__(self, provisioning: Provisioning, admission: Admission, artefacts: Artefacts) -> None:
        self._provisioning = provisioning
        self._admission = admission
        self._artefacts = artefacts

    @asynccontextmanager
    async def running(
        self, template: TemplateLayers, layers: tuple[LayerId, ...], shape: SandboxShape
    ) -> AsyncGenerator[Machine]:
        folders = [await self._artefacts.layer(layer) for layer in layers]
        token = naming.new_guest_token()
        spec = MachineSpec(
            id=self._provisioning.new_id(),
            layers=(*template.layers, *folders),
            limits=machine_limits(shape),
            token=token,
        )
        async with self._admission.place():
            machine = await self._provisioning.start(spec, _NOBODYS, guest_token=token, layers=layers)
        try:
            await machine.identify(nobody(token))
            yield machine
        finally:
            await asyncio.shield(self._provisioning.stop(machine))
