"""Patches: scripts that the sandboxes of a checkpoint run once each, in order (behaviour section 18)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.stores import PatchStore, SandboxStore, SnapshotStore
from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import Conflict, InvalidInput, NotFound
from opencomputer.server.domain.snapshot import Patch, Snapshot, SnapshotPurpose, SnapshotState
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.scripts import run_script
from opencomputer.server.services.sandboxes.transitions import Transitions
from opencomputer.wire.ids import OrgId, PatchId, SnapshotId
from opencomputer.wire.patches import MAX_SCRIPT_BYTES

PATCH_SECONDS = 300.0
ALL_PATCHES_SECONDS = 600.0

_TAIL_BYTES = 500


class Patches:
    def __init__(
        self,
        patches: PatchStore,
        snapshots: SnapshotStore,
        sandboxes: SandboxStore,
        transitions: Transitions,
        clock: Clock,
    ) -> None:
        self._patches = patches
        self._snapshots = snapshots
        self._sandboxes = sandboxes
        self._transitions = transitions
        self._clock = clock

    async def add(
        self, org_id: OrgId, checkpoint_id: SnapshotId, script: str, description: str | None
    ) -> Patch:
        """Attach a script to a checkpoint that is ready. Raises NotFound, InvalidInput, Conflict."""
        if not script.strip():
            raise InvalidInput("script must not be empty", field="script")
        if len(script.encode()) > MAX_SCRIPT_BYTES:
            raise InvalidInput(f"script must have at most {MAX_SCRIPT_BYTES} bytes", field="script")
        checkpoint = await self._own(org_id, checkpoint_id)
        if checkpoint.state is not SnapshotState.READY:
            raise Conflict(f"the checkpoint is {checkpoint.state}; patches need one that is ready")
        return await self._patches.add(
            Patch(naming.new_patch_id(), checkpoint_id, 0, script, description, self._clock.now())
        )

    async def list(self, org_id: OrgId, checkpoint_id: SnapshotId) -> Sequence[Patch]:
        await self._own(org_id, checkpoint_id)
        return await self._patches.list(checkpoint_id)

    async def delete(self, org_id: OrgId, checkpoint_id: SnapshotId, patch_id: PatchId) -> None:
        await self._own(org_id, checkpoint_id)
        if not await self._patches.remove(checkpoint_id, patch_id):
            raise NotFound("the checkpoint has no such patch")

    async def _own(self, org_id: OrgId, checkpoint_id: SnapshotId) -> Snapshot:
        found = await self._snapshots.get(checkpoint_id)
        if found is None or found.org_id != org_id or found.purpose is SnapshotPurpose.HIBERNATION:
            raise NotFound("there is no such checkpoint")
        return found

    async def apply(self, live: LiveSandbox) -> str | None:
        """Run what the sandbox has not run yet, and write down how far it came. Returns the error, if any.

        Stops at the first that fails: it is tried again next time. The sandbox stays usable.
        """
        row = await self._sandboxes.get(live.sandbox.org_id, live.id)
        if row is None or row.patch_source is None:
            return None
        pending = await self._patches.list(row.patch_source, after=row.patch_position)
        if not pending and row.patch_error is None:
            return None
        error: str | None = None
        try:
            async with asyncio.timeout(ALL_PATCHES_SECONDS):
                for patch in pending:
                    error = await self._run(live, patch)
                    if error is not None or not await self._still_served(live):
                        break
                    await self._sandboxes.update(live.id, {"patch_position": patch.sequence})
        except TimeoutError:
            error = f"the patches took longer than {ALL_PATCHES_SECONDS:.0f} s in all"
        if await self._still_served(live):
            await self._sandboxes.update(live.id, {"patch_error": error})
        return error

    async def _still_served(self, live: LiveSandbox) -> bool:
        """Whether what a patch has just done to this machine is part of the sandbox. After a restore it is
        not, and the position must be the checkpoint's."""
        if self._transitions.closes(live.id):
            await self._transitions.over(live.id)
        return not live.ended.is_set()

    async def _run(self, live: LiveSandbox, patch: Patch) -> str | None:
        with live.activity.request():
            end = await run_script(
                live.machine, patch.script, timeout_seconds=PATCH_SECONDS, tail_bytes=_TAIL_BYTES
            )
        if end.code == 0:
            return None
        code = "unknown" if end.code is None else end.code
        return f"patch {patch.sequence} failed (exit {code}): {end.error_tail.strip()}"
