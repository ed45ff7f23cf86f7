"""Checkpoints: named copies of a running sandbox (behaviour section 15)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, field, replace

import structlog

from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import InvalidInput, NotFound, OpenComputerError
from opencomputer.server.domain.snapshot import (
    Retention,
    Snapshot,
    SnapshotKind,
    SnapshotPurpose,
    SnapshotState,
    check_checkpoint_name,
    origin_of,
    to_delete,
)
from opencomputer.server.services.sandboxes.capture import reason_of, write_ready
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.machinery import Machinery
from opencomputer.wire.ids import OrgId, SandboxId, SnapshotId

_log = structlog.get_logger(__name__)

_READY_SECONDS = 30.0
_CAPTURE_SECONDS = 1200.0
_ANSWER_SECONDS = 20.0
"""Clients wait for 30 s, and files are copied before the machine is paused."""


@dataclass(frozen=True)
class NewCheckpoint:
    name: str
    kind: SnapshotKind = SnapshotKind.FULL
    retention: Retention = field(default_factory=Retention)


class Checkpoints:
    def __init__(self, machinery: Machinery) -> None:
        self._snapshots = machinery.snapshots
        self._lifecycle = machinery.lifecycle
        self._transitions = machinery.transitions
        self._captures = machinery.captures
        self._clock = machinery.clock
        self._background = machinery.background
        self._under_way: dict[SnapshotId, asyncio.Task[None]] = {}

    async def create(self, org_id: OrgId, sandbox_id: SandboxId, request: NewCheckpoint) -> Snapshot:
        """Begin a checkpoint: it is processing, and ready only when everything of it is durable.

        Returns when the sandbox goes on, so that nothing the caller does then is in the checkpoint. When that
        takes too long for callers, it returns before.

        Raises InvalidInput, Conflict (the name is taken), OperationInProgress, Gone: then there is none.
        """
        check_checkpoint_name(request.name)
        live = await self._lifecycle.running(org_id, sandbox_id)
        return await self._background.carry_out(self._create(live, request), name=f"checkpoint {sandbox_id}")

    async def _create(self, live: LiveSandbox, request: NewCheckpoint) -> Snapshot:
        excluding = ExitStack()
        excluding.enter_context(self._transitions.exclusive(live.id, "a checkpoint", closes=False))
        try:
            snapshot = await self._begin(live, request)
        except BaseException:
            excluding.close()
            raise
        goes_on = asyncio.Event()
        excluding.callback(goes_on.set)
        work = self._capture(live, snapshot, excluding)
        task = self._background.start(work, name=f"capture {snapshot.id}", finish=True)
        self._under_way[snapshot.id] = task
        task.add_done_callback(lambda _: self._under_way.pop(snapshot.id))
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_SECONDS):
                await goes_on.wait()
        return snapshot

    async def _capture(self, live: LiveSandbox, snapshot: Snapshot, excluding: ExitStack) -> None:
        try:
            async with asyncio.timeout(_CAPTURE_SECONDS):
                await self._fill(live, snapshot, excluding)
        except TimeoutError:
            await self._fail(snapshot, f"it took longer than {_CAPTURE_SECONDS:.0f} s")
        except BaseException as error:
            await asyncio.shield(self._fail(snapshot, reason_of(error)))
            if not isinstance(error, OpenComputerError):
                raise
        finally:
            excluding.close()

    async def _begin(self, live: LiveSandbox, request: NewCheckpoint) -> Snapshot:
        sandbox = await self._lifecycle.held(live)
        existing = [
            each
            for each in await self._snapshots.checkpoints(sandbox.org_id, sandbox.id)
            if each.state is not SnapshotState.FAILED
        ]
        protected = await self._snapshots.protected(sandbox.id)
        superfluous = to_delete(request.kind, existing, protected, request.retention)
        snapshot = Snapshot(
            id=naming.new_snapshot_id(),
            org_id=sandbox.org_id,
            purpose=SnapshotPurpose.CHECKPOINT,
            kind=request.kind,
            state=SnapshotState.PROCESSING,
            origin=origin_of(sandbox),
            created_at=self._clock.now(),
            sandbox_id=sandbox.id,
            name=request.name,
        )
        await self._snapshots.add(snapshot, instead_of=superfluous)
        return snapshot

    async def _fill(self, live: LiveSandbox, snapshot: Snapshot, excluding: ExitStack) -> None:
        memory = snapshot.kind is SnapshotKind.FULL
        async with AsyncExitStack() as stack:
            # Others are excluded until the machine has gone on; making it durable is no concern of theirs.
            with excluding, live.activity.request():
                saving = await stack.enter_async_context(
                    self._captures.saving(live.machine, snapshot.origin.layers, memory=memory)
                )
            captured = await saving.keep(memory=memory)
        await write_ready(self._snapshots, snapshot.id, captured, self._clock.now())

    async def _fail(self, snapshot: Snapshot, reason: str) -> None:
        _log.warning("a checkpoint failed", checkpoint=snapshot.id, reason=reason)
        await self._snapshots.fail(snapshot.id, reason, self._clock.now())

    async def list(self, org_id: OrgId, sandbox_id: SandboxId) -> Sequence[Snapshot]:
        """Newest first, of sandboxes that are stopped too."""
        await self._lifecycle.get(org_id, sandbox_id)
        return await self._snapshots.checkpoints(org_id, sandbox_id)

    async def delete(self, org_id: OrgId, sandbox_id: SandboxId, checkpoint_id: SnapshotId) -> None:
        """Delete a checkpoint; one that is processing is given up. What was made from it is not touched."""
        await self.of_sandbox(org_id, sandbox_id, checkpoint_id)
        await self._snapshots.remove(checkpoint_id)

    async def publish(self, org_id: OrgId, checkpoint_id: SnapshotId, *, public: bool) -> Snapshot:
        """Let every organisation fork it, or no longer."""
        checkpoint = await self._own(org_id, checkpoint_id)
        await self._snapshots.publish(checkpoint_id, public)
        return replace(checkpoint, is_public=public)

    async def of_sandbox(self, org_id: OrgId, sandbox_id: SandboxId, checkpoint_id: SnapshotId) -> Snapshot:
        """One of the sandbox's own. Raises NotFound; InvalidInput when it is another sandbox's."""
        await self._lifecycle.get(org_id, sandbox_id)
        checkpoint = await self._own(org_id, checkpoint_id)
        if checkpoint.sandbox_id != sandbox_id:
            raise InvalidInput("the checkpoint is another sandbox's", field="checkpointId")
        return checkpoint

    async def _own(self, org_id: OrgId, checkpoint_id: SnapshotId) -> Snapshot:
        checkpoint = await self.visible(org_id, checkpoint_id)
        if checkpoint.org_id != org_id:
            raise NotFound("there is no such checkpoint")
        return checkpoint

    async def visible(self, org_id: OrgId, checkpoint_id: SnapshotId) -> Snapshot:
        """One that the organisation may fork: its own, or a public one. Raises NotFound."""
        found = await self._snapshots.get(checkpoint_id)
        if found is None or found.purpose is not SnapshotPurpose.CHECKPOINT:
            raise NotFound("there is no such checkpoint")
        if found.org_id != org_id and not found.is_public:
            raise NotFound("there is no such checkpoint")
        return found

    async def usable(self, org_id: OrgId, checkpoint_id: SnapshotId) -> Snapshot:
        """One that is ready; waits a while for one that is processing. Raises NotFound, InvalidInput."""
        task = self._under_way.get(checkpoint_id)
        if task is not None:
            await self.visible(org_id, checkpoint_id)
            await asyncio.wait([task], timeout=_READY_SECONDS)
        checkpoint = await self.visible(org_id, checkpoint_id)
        if checkpoint.state is SnapshotState.PROCESSING:
            raise InvalidInput("the checkpoint is not ready yet", status=checkpoint.state)
        if checkpoint.state is SnapshotState.FAILED:
            raise InvalidInput(f"the checkpoint failed: {checkpoint.error}", status=checkpoint.state)
        return checkpoint
