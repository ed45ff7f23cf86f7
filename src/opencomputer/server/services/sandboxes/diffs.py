"""What files of a sandbox have changed, since a checkpoint or since it was made."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from opencomputer.server.domain.errors import ArtefactMissing, Gone
from opencomputer.server.domain.layers import Change, LayerId
from opencomputer.server.domain.sandbox import Sandbox, SandboxState
from opencomputer.server.services.sandboxes.checkpoints import Checkpoints
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.machinery import Machinery
from opencomputer.wire.ids import OrgId, SandboxId, SnapshotId

IDENTITY_FILES = frozenset({"/etc/hostname", "/etc/hosts", "/etc/machine-id"})
"""Written whenever a machine gets its identity: that they differ says nothing about what happened in it."""


class Diffs:
    """Compares stacks of layers, so that the size of the template does not matter."""

    def __init__(self, machinery: Machinery, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._lifecycle = machinery.lifecycle
        self._transitions = machinery.transitions
        self._background = machinery.background
        self._captures = machinery.captures
        self._artefacts = machinery.artefacts
        self._templates = machinery.templates

    async def diff(self, org_id: OrgId, sandbox_id: SandboxId, since: SnapshotId | None) -> Sequence[Change]:
        """By path in order, `IDENTITY_FILES` left out. A sandbox that sleeps is not woken for this.

        Raises NotFound, Gone, InvalidInput (the checkpoint is another sandbox's, or failed), SnapshotRefused.
        """
        sandbox = await self._lifecycle.get(org_id, sandbox_id)
        if sandbox.state is SandboxState.STOPPED:
            raise Gone
        before = await self._before(sandbox, since)
        if sandbox.state is SandboxState.HIBERNATED:
            return await self._compare(sandbox, before, await self._folders(sandbox.layers))
        live = await self._lifecycle.running(org_id, sandbox_id)
        return await self._background.carry_out(self._diff(live, before), name=f"diff {sandbox_id}")

    async def _diff(self, live: LiveSandbox, before: Sequence[Path]) -> Sequence[Change]:
        async with AsyncExitStack() as stack:
            with self._transitions.exclusive(live.id, "a diff", closes=False):
                sandbox = await self._lifecycle.held(live)
                below = await self._folders(sandbox.layers)
                saving = await stack.enter_async_context(
                    self._captures.saving(live.machine, sandbox.layers, memory=False)
                )
            return await self._compare(sandbox, before, [*below, saving.layer_folder])

    async def _before(self, sandbox: Sandbox, since: SnapshotId | None) -> list[Path]:
        if since is None:
            return await self._folders(sandbox.origin_layers)
        await self._checkpoints.of_sandbox(sandbox.org_id, sandbox.id, since)
        return await self._folders((await self._checkpoints.usable(sandbox.org_id, since)).origin.layers)

    async def _folders(self, layers: tuple[LayerId, ...]) -> list[Path]:
        return [await self._artefacts.layer(layer) for layer in layers]

    async def _compare(
        self, sandbox: Sandbox, before: Sequence[Path], after: Sequence[Path]
    ) -> Sequence[Change]:
        template = self._templates.find(sandbox.template, sandbox.template_hash)
        if template is None:
            raise ArtefactMissing(f"the build of template {sandbox.template!r} is gone")
        changes = await self._artefacts.changes(template.layers, before, after)
        return [each for each in changes if each.path not in IDENTITY_FILES]
