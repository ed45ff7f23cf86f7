"""Restore in place: a sandbox goes back to one of its checkpoints (behaviour section 16)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.domain.snapshot import Snapshot
from opencomputer.server.services.sandboxes.checkpoints import Checkpoints
from opencomputer.server.services.sandboxes.live import Ending, LiveSandbox
from opencomputer.server.services.sandboxes.machinery import Machinery
from opencomputer.server.services.sandboxes.succession import Succession, Successor
from opencomputer.wire.ids import OrgId, SandboxId, SnapshotId


class Restores:
    """Replaces a sandbox's machine by one made from a checkpoint."""

    def __init__(self, machinery: Machinery, checkpoints: Checkpoints, succession: Succession) -> None:
        self._checkpoints = checkpoints
        self._lifecycle = machinery.lifecycle
        self._transitions = machinery.transitions
        self._succession = succession
        self._boot = machinery.boot
        self._background = machinery.background

    async def restore(self, org_id: OrgId, sandbox_id: SandboxId, checkpoint_id: SnapshotId) -> None:
        """Go back. What came later is lost; when that fails the sandbox is as it was before.

        Raises NotFound, InvalidInput, OperationInProgress, StartFailed, ArtefactMissing, ArtefactDamaged.
        """
        await self._checkpoints.of_sandbox(org_id, sandbox_id, checkpoint_id)
        checkpoint = await self._checkpoints.usable(org_id, checkpoint_id)
        live = await self._lifecycle.running(org_id, sandbox_id)
        await self._background.carry_out(self._restore(live, checkpoint), name=f"restore {sandbox_id}")

    async def _restore(self, live: LiveSandbox, checkpoint: Snapshot) -> None:
        with self._transitions.exclusive(live.id, "a restore", closes=True):
            boot = partial(self._boot_from, checkpoint)
            await self._succession.replace(live, SandboxState.RESTORING, Ending.RESTORED, boot)

    async def _boot_from(self, checkpoint: Snapshot, sandbox: Sandbox) -> Successor:
        """No cold start instead of a memory that cannot be restored: the user asked for that very state."""
        target, memory = _target(sandbox, checkpoint), checkpoint.memory
        if memory is None:
            return Successor(target, await self._boot.cold(target, target.layers))
        machine = await self._boot.restored(target, target.layers, memory, copied=False)
        return Successor(target, machine)


def _target(sandbox: Sandbox, checkpoint: Snapshot) -> Sandbox:
    """The row of the sandbox once it is back. It keeps its size, or gets what the checkpoint needs."""
    shape = sandbox.shape
    if shape.memory_mb < checkpoint.origin.shape.memory_mb:
        shape = replace(
            shape,
            memory_mb=checkpoint.origin.shape.memory_mb,
            cpu_count=max(shape.cpu_count, checkpoint.origin.shape.cpu_count),
        )
    return replace(
        sandbox,
        shape=shape,
        layers=checkpoint.origin.layers,
        # Never a number this sandbox has had before, so that programs notice.
        generation=max(sandbox.generation, checkpoint.origin.generation) + 1,
        patch_position=checkpoint.origin.patch_position,
    )
