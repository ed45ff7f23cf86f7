"""Reboot and power-cycle: the same disk, nothing of the memory (behaviour section 6)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.services.sandboxes.live import Ending, LiveSandbox
from opencomputer.server.services.sandboxes.machinery import Machinery
from opencomputer.server.services.sandboxes.succession import Succession, Successor
from opencomputer.wire.ids import OrgId, SandboxId


class Power:
    """Gives a sandbox a new machine with the old one's files.

    A machine is its kernel here, so both operations replace it. The old one is kept, paused, until the new
    one answers.
    """

    def __init__(self, machinery: Machinery, succession: Succession) -> None:
        self._lifecycle = machinery.lifecycle
        self._transitions = machinery.transitions
        self._succession = succession
        self._captures = machinery.captures
        self._boot = machinery.boot
        self._background = machinery.background

    async def reboot(self, org_id: OrgId, sandbox_id: SandboxId) -> None:
        """Start all programs anew. Raises OperationInProgress, InvalidInput (it is asleep), StartFailed."""
        await self._begin(org_id, sandbox_id, "a reboot")

    async def power_cycle(self, org_id: OrgId, sandbox_id: SandboxId) -> None:
        """As `reboot`; also for a machine whose kernel or guest does not answer any more."""
        await self._begin(org_id, sandbox_id, "a power-cycle")

    async def _begin(self, org_id: OrgId, sandbox_id: SandboxId, what: str) -> None:
        live = await self._lifecycle.running(org_id, sandbox_id)
        await self._background.carry_out(self._restart(live, what), name=f"{what} of {sandbox_id}")

    async def _restart(self, live: LiveSandbox, what: str) -> None:
        with self._transitions.exclusive(live.id, what, closes=True):
            boot_again = partial(self._boot_again, live)
            await self._succession.replace(live, SandboxState.REBOOTING, Ending.REBOOTED, boot_again)

    async def _boot_again(self, live: LiveSandbox, sandbox: Sandbox) -> Successor:
        async with self._captures.saving(live.machine, sandbox.layers, memory=False, go_on=False) as saving:
            layers, _ = await saving.keep_files()
        target = replace(sandbox, layers=layers)
        return Successor(target, await self._boot.cold(target, layers))
