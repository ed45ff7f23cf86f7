"""Forks: new sandboxes that go on from what another one was (behaviour section 17)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import Gone, InvalidInput
from opencomputer.server.domain.limits import TIERS
from opencomputer.server.domain.sandbox import Sandbox, SandboxShape
from opencomputer.server.domain.snapshot import Origin, Snapshot, origin_of
from opencomputer.server.services.sandboxes.checkpoints import Checkpoints
from opencomputer.server.services.sandboxes.lifecycle import Created, NewSandbox, Source
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.machinery import Machinery
from opencomputer.server.services.sandboxes.patches import Patches
from opencomputer.server.services.sandboxes.reach import Reach
from opencomputer.server.services.sandboxes.repeats import Queues
from opencomputer.server.services.sandboxes.sealing import SealingRequest
from opencomputer.wire.ids import OrgId, SandboxId, SnapshotId

MAX_FORKS_AT_ONCE = 16


@dataclass(frozen=True)
class ForkRequest:
    """What differs from the source. `memory_mb` None: as the source, and never less.

    With an idempotency key the same request, told by `request_hash`, makes forks once. `preview_token_of`
    makes the token for previews of a fork with a key of its own, which is the same whenever it is asked.
    """

    timeout_seconds: int = 0
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    memory_mb: int | None = None
    secret_store: str | None = None
    idempotency_key: str | None = None
    request_hash: str = ""
    preview_token_of: Callable[[str], str] = field(
        default=lambda key: naming.new_preview_token(), compare=False, repr=False
    )


@dataclass(frozen=True)
class Forked:
    """`memory_restored`: it goes on with the processes of its source. `preview_token` is what its previews
    ask for, if those of its source ask for one; told only here."""

    sandbox: Sandbox
    memory_restored: bool
    preview_token: str | None = field(default=None, repr=False)
    warnings: tuple[str, ...] = ()


class Forks:
    def __init__(
        self, machinery: Machinery, checkpoints: Checkpoints, reach: Reach, patches: Patches
    ) -> None:
        self._checkpoints = checkpoints
        self._lifecycle = machinery.lifecycle
        self._sandboxes = machinery.sandboxes
        self._reach = reach
        self._live = machinery.live
        self._transitions = machinery.transitions
        self._captures = machinery.captures
        self._snapshots = machinery.snapshots
        self._patches = patches
        self._background = machinery.background
        self._sealings = machinery.sealings
        self._queues = Queues()

    async def from_checkpoint(self, org_id: OrgId, checkpoint_id: SnapshotId, request: ForkRequest) -> Forked:
        """A sandbox that goes on from a checkpoint, usable when this returns, its patches applied.

        Raises NotFound, InvalidInput (the checkpoint failed, or is not ready in time), and as create does.
        A request that comes again gets the sandbox it got before, as it is by now, also when the checkpoint
        is gone.
        """
        key = request.idempotency_key
        if key is None:
            return await self._from_checkpoint(org_id, checkpoint_id, request)
        async with self._queues.alone(org_id, key):
            earlier = await self._lifecycle.creations.of_key(org_id, key, request.request_hash)
            if earlier is not None:
                return await self._again(earlier, request, memory_restored=await self._goes_on(earlier))
            return await self._from_checkpoint(org_id, checkpoint_id, request)

    async def _goes_on(self, fork: Sandbox) -> bool:
        """Whether a fork went on with the memory of its checkpoint, as far as can be told later."""
        checkpoint = None if fork.from_checkpoint is None else await self._snapshots.get(fork.from_checkpoint)
        return checkpoint is not None and fork.generation > checkpoint.origin.generation

    async def _from_checkpoint(
        self, org_id: OrgId, checkpoint_id: SnapshotId, request: ForkRequest
    ) -> Forked:
        checkpoint = await self._checkpoints.usable(org_id, checkpoint_id)
        origin = replace(checkpoint.origin, patch_source=checkpoint.id, patch_position=0)
        copy_of = checkpoint.sandbox_id
        if checkpoint.org_id != org_id:
            # A public one: its stores are its owner's, and ours of the same names have nothing to do with it.
            origin, copy_of = replace(origin, secret_stores=()), None
        locked = await self._is_locked(checkpoint)
        source = Source(origin, checkpoint.memory, checkpoint.id, copy_of, locked=locked)
        return await self._make(org_id, source, request, request.idempotency_key)

    async def _is_locked(self, checkpoint: Snapshot) -> bool:
        """Whether the sandbox of a checkpoint asks visitors for a token by now, also if it has stopped."""
        if checkpoint.sandbox_id is None:
            return False
        sandbox = await self._sandboxes.get(checkpoint.org_id, checkpoint.sandbox_id)
        return sandbox is not None and sandbox.preview_token_hash is not None

    async def fork(
        self, org_id: OrgId, sandbox_id: SandboxId, count: int, request: ForkRequest
    ) -> Sequence[Forked]:
        """Sandboxes that go on from what a running one is right now. All of them, or none.

        Raises SnapshotRefused with the runtime's reason when its memory cannot be saved. A request that comes
        again gets the sandboxes it got before, as they are by now.
        """
        if not 1 <= count <= MAX_FORKS_AT_ONCE:
            raise InvalidInput(f"count must be from 1 to {MAX_FORKS_AT_ONCE}", field="count")
        name = f"fork {sandbox_id}"
        if request.idempotency_key is not None:
            keys = fork_keys(request.idempotency_key, count)
            once = self._fork_once(org_id, sandbox_id, keys, request)
            return await self._background.carry_out(once, name=name)
        live = await self._reach.live(org_id, sandbox_id)
        return await self._background.carry_out(self._fork(live, count, request), name=name)

    async def _fork_once(
        self, org_id: OrgId, sandbox_id: SandboxId, keys: Sequence[str], request: ForkRequest
    ) -> Sequence[Forked]:
        async with self._queues.alone(org_id, keys[0]):
            of_key = self._lifecycle.creations.of_key
            earlier = [await of_key(org_id, key, request.request_hash) for key in keys]
            found = [each for each in earlier if each is not None]
            if len(found) == len(keys):
                return [await self._again(each, request, memory_restored=True) for each in found]
            # Their process ended before the others were there: nobody was told of any.
            for each in found:
                await self._lifecycle.kill(org_id, each.id, forget_key=True)
            return await self._fork(await self._reach.live(org_id, sandbox_id), len(keys), request)

    async def _fork(self, live: LiveSandbox, count: int, request: ForkRequest) -> Sequence[Forked]:
        async with AsyncExitStack() as stack:
            with self._transitions.exclusive(live.id, "a fork", closes=False), live.activity.request():
                sandbox = await self._lifecycle.held(live)
                saving = await stack.enter_async_context(
                    self._captures.saving(live.machine, sandbox.layers, memory=True)
                )
            layers, _ = await saving.keep_files()
            origin = replace(origin_of(sandbox), layers=layers)
            locked = sandbox.preview_token_hash is not None
            source = Source(origin, saving.memory_folder, copy_of=sandbox.id, locked=locked)
            return await self._make_all(sandbox.org_id, source, count, request)

    async def _make_all(
        self, org_id: OrgId, source: Source, count: int, request: ForkRequest
    ) -> Sequence[Forked]:
        key = request.idempotency_key
        keys = [None] * count if key is None else fork_keys(key, count)
        tasks = [asyncio.create_task(self._make(org_id, source, request, key)) for key in keys]
        try:
            return await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.shield(self._undo(org_id, tasks))
            raise

    async def _undo(self, org_id: OrgId, tasks: Sequence[asyncio.Task[Forked]]) -> None:
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Forked):
                await self._lifecycle.kill(org_id, result.sandbox.id, forget_key=True)

    async def _again(self, earlier: Sandbox, request: ForkRequest, *, memory_restored: bool) -> Forked:
        live = self._live.get(earlier.org_id, earlier.id)
        if live is not None:
            await self._patches.apply(live)
        row = await self._lifecycle.get(earlier.org_id, earlier.id)
        token = request.preview_token_of(row.idempotency_key or "")
        # It may have another by now.
        fits = naming.secret_hash(token) == row.preview_token_hash
        return Forked(row, memory_restored, preview_token=token if fits else None)

    async def _make(self, org_id: OrgId, source: Source, request: ForkRequest, key: str | None) -> Forked:
        token = request.preview_token_of(key or "") if source.locked else None
        origin = source.origin
        holding = SealingRequest(
            named=request.secret_store,
            inherited=origin.secret_stores,
            plain={*origin.environment, *request.environment},
            copied_from=source.copy_of,
        )
        new = NewSandbox(
            template=origin.template,
            shape=fork_shape(origin, request.memory_mb),
            timeout_seconds=request.timeout_seconds,
            environment=request.environment,
            metadata=request.metadata,
            alias=None,
            network_enabled=origin.network_enabled,
            idempotency_key=key,
            request_hash=request.request_hash,
            preview_token_hash=None if token is None else naming.secret_hash(token),
            secret_stores=holding.chain,
            egress_allowlist=origin.egress_allowlist,
            sealing=await self._sealings.seal(org_id, holding),
        )
        created = await self._lifecycle.create(org_id, new, source)
        try:
            return replace(await self._patched(created), preview_token=token)
        except BaseException:
            # Nobody has learnt its id.
            await asyncio.shield(self._lifecycle.kill(org_id, created.sandbox.id, forget_key=True))
            raise

    async def _patched(self, created: Created) -> Forked:
        org_id, sandbox_id = created.sandbox.org_id, created.sandbox.id
        live = self._live.get(org_id, sandbox_id)
        if live is None:
            raise Gone
        await self._patches.apply(live)
        row = await self._lifecycle.get(org_id, sandbox_id)
        return Forked(row, created.memory_restored, warnings=created.warnings)


def fork_shape(origin: Origin, memory_mb: int | None) -> SandboxShape:
    """At least what the source had, at most the largest tier (behaviour 17.2). Pure."""
    if memory_mb is None:
        return origin.shape
    least = origin.shape.memory_mb
    wanted = max(least, min(memory_mb, max(TIERS)))
    tier = max(min(each for each in TIERS if each >= min(wanted, max(TIERS))), least)
    return replace(origin.shape, memory_mb=tier, cpu_count=TIERS.get(tier, origin.shape.cpu_count))


def fork_keys(key: str, count: int) -> Sequence[str]:
    """Under which key each of the forks of one request is found again. Pure."""
    words = (f"fork {number} of {key}" for number in range(1, count))
    return [key, *(hashlib.sha256(each.encode()).hexdigest() for each in words)]
