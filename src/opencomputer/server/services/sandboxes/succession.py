"""Putting another machine in the place of a sandbox's present one."""

from __future__ import annotations

from dataclasses import replace

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.machine import Machine
from opencomputer.server.contracts.stores import SandboxFields, SandboxStore
from opencomputer.server.domain.errors import Gone
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.services.background import Background
from opencomputer.server.services.sandboxes.lifecycle import Lifecycle, deadline
from opencomputer.server.services.sandboxes.live import Ending, LiveSandbox, LiveSandboxes
from opencomputer.server.services.sandboxes.provisioning import Provisioning


class Succession:
    """The old machine is there, to go back to, until its successor has answered and the store says so."""

    def __init__(
        self,
        sandboxes: SandboxStore,
        lifecycle: Lifecycle,
        live: LiveSandboxes,
        provisioning: Provisioning,
        clock: Clock,
        background: Background,
    ) -> None:
        self._sandboxes = sandboxes
        self._lifecycle = lifecycle
        self._live = live
        self._provisioning = provisioning
        self._clock = clock
        self._background = background

    async def begin(self, live: LiveSandbox, state: SandboxState) -> Sandbox:
        """Write down what is about to happen. Returns the sandbox as it was. Raises Gone."""
        sandbox = await self._lifecycle.get(live.sandbox.org_id, live.id)
        if not await self._move(sandbox, SandboxState.RUNNING, state):
            raise Gone
        return sandbox

    async def give_up(self, sandbox: Sandbox, state: SandboxState) -> None:
        """The sandbox goes on with the machine it has."""
        await self._move(sandbox, state, SandboxState.RUNNING)

    async def finish(
        self, live: LiveSandbox, state: SandboxState, target: Sandbox, machine: Machine, ending: Ending
    ) -> None:
        """Serve `target` with the successor and let the old machine go.

        Raises Gone when the sandbox was killed meanwhile: then neither machine is left.
        """
        due_at = deadline(self._clock.now(), target.timeout_seconds)
        fields: SandboxFields = {
            "layers": target.layers,
            "shape": target.shape,
            "generation": target.generation,
            "patch_position": target.patch_position,
            "due_at": due_at,
        }
        succeeded = await self._move(target, state, SandboxState.RUNNING, fields)
        self._live.remove(live.id, ending if succeeded else Ending.STOPPED)
        if succeeded:
            row = replace(target, state=SandboxState.RUNNING, machine_id=machine.id, due_at=due_at)
            self._lifecycle.attend(row, machine)
        for old in (live.machine,) if succeeded else (live.machine, machine):
            self._background.start(self._provisioning.stop(old), name=f"let go of {old.id}", finish=True)
        if not succeeded:
            raise Gone

    async def _move(
        self,
        sandbox: Sandbox,
        before: SandboxState,
        after: SandboxState,
        fields: SandboxFields | None = None,
    ) -> bool:
        return await self._sandboxes.move(sandbox.id, before, after, at=self._clock.now(), fields=fields)
