"""Create, get, list, kill: the life of a sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.machine import Machine
from opencomputer.server.contracts.stores import SandboxFields, SandboxStore, SnapshotStore
from opencomputer.server.contracts.templates import TemplateCatalogue
from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import (
    ArtefactMissing,
    Conflict,
    Gone,
    InvalidInput,
    NotFound,
    NotReady,
    OperationInProgress,
)
from opencomputer.server.domain.lifecycle_webhooks import Webhook
from opencomputer.server.domain.sandbox import ACTIVE, Sandbox, SandboxShape, SandboxState, StopReason, shown
from opencomputer.server.domain.secrets import NOTHING_SEALED, Sealing
from opencomputer.server.domain.snapshot import Origin, SavedMemory
from opencomputer.server.domain.templates import template_name
from opencomputer.server.services.background import Background
from opencomputer.server.services.sandboxes.boot import Boot, Booted, MemoryFolder
from opencomputer.server.services.sandboxes.deadlines import deadline, last_use
from opencomputer.server.services.sandboxes.live import Activity, Ending, LiveSandbox, LiveSandboxes
from opencomputer.server.services.sandboxes.moves import Moves, settled
from opencomputer.server.services.sandboxes.provisioning import Provisioning
from opencomputer.server.services.sandboxes.repeats import Creations
from opencomputer.server.services.sandboxes.transitions import Transitions
from opencomputer.wire.ids import OrgId, SandboxId, SnapshotId

_log = structlog.get_logger(__name__)

MAX_PAGE = 200
_CREATE_ATTEMPTS = 5


def no_webhooks(_sandbox: Sandbox) -> Sequence[Webhook]:
    return ()


@dataclass(frozen=True)
class NewSandbox:
    """A create that has been validated. `request_hash` tells whether a repeated key means the same.

    `webhooks` makes those that are told of it, from its first event on.
    `template` is looked at only when the sandbox is made from nothing else.
    """

    template: str
    shape: SandboxShape
    timeout_seconds: int
    environment: Mapping[str, str]
    metadata: Mapping[str, str]
    alias: str | None
    network_enabled: bool
    idempotency_key: str | None
    request_hash: str
    preview_token_hash: str | None = None
    secret_stores: tuple[str, ...] = ()
    egress_allowlist: tuple[str, ...] = ()
    sealing: Sealing = NOTHING_SEALED
    webhooks: Callable[[Sandbox], Sequence[Webhook]] = no_webhooks


@dataclass(frozen=True)
class Source:
    """What a new sandbox is made from, when it is not just a template.

    `memory` is only used by a sandbox with as much memory as the origin had, or more. `checkpoint` is the one
    that was forked. `copy_of` is the sandbox whose memory and files these are, if it is the organisation's.
    `locked`: previews of what it was ask for a token. `machine` is one that is ready for it. It stays
    the caller's when the create was a repeated one.
    """

    origin: Origin
    memory: SavedMemory | MemoryFolder | None = None
    checkpoint: SnapshotId | None = None
    copy_of: SandboxId | None = None
    locked: bool = False
    machine: Machine | None = None


@dataclass(frozen=True)
class Created:
    """`memory_restored`: the sandbox goes on with the processes of its source."""

    sandbox: Sandbox
    memory_restored: bool
    warnings: tuple[str, ...] = ()


class Lifecycle:
    """The use cases of `/api/sandboxes`. Each change of state is a compare-and-set in the store."""

    def __init__(
        self,
        sandboxes: SandboxStore,
        live: LiveSandboxes,
        boot: Boot,
        provisioning: Provisioning,
        templates: TemplateCatalogue,
        snapshots: SnapshotStore,
        transitions: Transitions,
        clock: Clock,
        background: Background,
        *,
        concurrency_limit: int | None,
    ) -> None:
        self._sandboxes = sandboxes
        self._moves = Moves(sandboxes, clock)
        self._live = live
        self._boot = boot
        self._provisioning = provisioning
        self._templates = templates
        self._snapshots = snapshots
        self._transitions = transitions
        self._clock = clock
        self._background = background
        self._concurrency_limit = concurrency_limit
        self.creations = Creations(sandboxes)

    async def create(self, org_id: OrgId, request: NewSandbox, source: Source | None = None) -> Created:
        """Return a sandbox that is usable now. A create that fails or is cancelled leaves nothing."""
        for _ in range(_CREATE_ATTEMPTS):
            earlier = await self.creations.of_key(org_id, request.idempotency_key, request.request_hash)
            if earlier is not None:
                return Created(earlier, memory_restored=False)
            sandbox = self._new_row(org_id, request, source)
            with self.creations.under_way(sandbox.id):
                if await self._reserve(sandbox, request):
                    created = await self._start(sandbox, source)
                    return replace(created, warnings=request.sealing.warnings)
        raise OperationInProgress("the create with this idempotency key is in progress")

    async def _reserve(self, sandbox: Sandbox, request: NewSandbox) -> bool:
        """Write the row that everything else hangs on. False: its key, or its id, was taken meanwhile."""
        try:
            await self._sandboxes.add(
                sandbox,
                request.sealing,
                concurrency_limit=self._concurrency_limit,
                webhooks=request.webhooks(sandbox),
            )
        except Conflict:
            return False
        return True

    def origin(self, template: str, shape: SandboxShape) -> Origin:
        """What a sandbox of a template starts as. Raises NotFound."""
        found = self._templates.get(template_name(template))
        if found is None:
            raise NotFound("there is no template of this name", field="templateID")
        return Origin(found.name, found.hash, shape, environment=found.environment, workdir=found.workdir)

    def _new_row(self, org_id: OrgId, request: NewSandbox, source: Source | None) -> Sandbox:
        origin = source.origin if source else self.origin(request.template, request.shape)
        return Sandbox(
            id=naming.new_sandbox_id(),
            org_id=org_id,
            state=SandboxState.CREATING,
            template=origin.template,
            template_hash=origin.template_hash,
            shape=request.shape,
            timeout_seconds=request.timeout_seconds,
            environment={**request.sealing.unhidden(origin.environment), **request.environment},
            metadata={**origin.metadata, **request.metadata},
            alias=request.alias,
            network_enabled=request.network_enabled,
            machine_id=None,
            created_at=self._clock.now(),
            idempotency_key=request.idempotency_key,
            request_hash=request.request_hash,
            layers=origin.layers,
            origin_layers=origin.layers,
            workdir=origin.workdir,
            generation=origin.generation + 1 if source and source.memory else origin.generation,
            from_checkpoint=source.checkpoint if source else None,
            forked_from=source.copy_of if source else None,
            patch_source=origin.patch_source,
            patch_position=origin.patch_position,
            preview_token_hash=request.preview_token_hash,
            secret_stores=request.secret_stores,
            egress_allowlist=request.egress_allowlist,
        )

    async def _start(self, sandbox: Sandbox, source: Source | None) -> Created:
        booted: Booted | None = None
        try:
            booted = await self._machine_for(sandbox, source)
            now = self._clock.now()
            due_at = deadline(now, sandbox.timeout_seconds)
            move = self._sandboxes.move(
                sandbox.id, SandboxState.CREATING, SandboxState.RUNNING, at=now, fields={"due_at": due_at}
            )
            if not await settled(move, self._sandboxes, sandbox, SandboxState.RUNNING):
                raise Conflict("the sandbox was killed while it was created")
        except BaseException:
            await asyncio.shield(self._undo(sandbox, booted))
            raise
        machine = booted.machine
        layers = self._provisioning.layers(machine)
        created = replace(
            sandbox,
            state=SandboxState.RUNNING,
            started_at=now,
            machine_id=machine.id,
            layers=layers,
            origin_layers=layers,
            due_at=due_at,
        )
        self.attend(created, machine)
        return Created(created, booted.memory_restored)

    async def _machine_for(self, sandbox: Sandbox, source: Source | None) -> Booted:
        if source is not None and source.machine is not None:
            await self._boot.give(sandbox, source.machine)
            return Booted(source.machine, memory_restored=False)
        memory = None if source is None else source.memory
        if isinstance(memory, MemoryFolder):
            machine = await self._boot.continued(sandbox, sandbox.layers, memory, copied=True)
            return Booted(machine, memory_restored=True)
        if source is not None and sandbox.shape.memory_mb < source.origin.shape.memory_mb:
            memory = None
        if memory is not None or sandbox.layers:
            return await self._boot.saved(sandbox, sandbox.layers, memory, copied=True)
        template = self._templates.find(sandbox.template, sandbox.template_hash)
        if template is None:
            raise ArtefactMissing(f"the build of template {sandbox.template!r} is gone")
        return Booted(await self._boot.fresh(sandbox, template), memory_restored=False)

    async def _undo(self, sandbox: Sandbox, booted: Booted | None) -> None:
        if booted is not None:
            await self._provisioning.stop(booted.machine)
        await self._moves.move(
            sandbox, SandboxState.CREATING, SandboxState.FAILED, reason=StopReason.START_FAILED
        )

    def attend(self, sandbox: Sandbox, machine: Machine) -> LiveSandbox:
        """Serve a running sandbox from now on, and notice when its machine ends."""
        return self._attend(sandbox, machine, Activity(self._clock, self._clock.now()))

    def _attend(self, sandbox: Sandbox, machine: Machine, activity: Activity) -> LiveSandbox:
        live = LiveSandbox(sandbox, machine, activity)
        self._live.add(live)
        self._background.start(self._watch(live), name=f"watch {sandbox.id}")
        return live

    async def resume(self, sandbox: Sandbox, machine: Machine) -> None:
        """Serve a sandbox of an earlier process again, unless it has been killed meanwhile."""
        self._attend(sandbox, machine, Activity(self._clock, last_use(sandbox, self._clock.now())))
        # Looked at after it is served: a kill either finds it there or is seen here.
        current = await self._sandboxes.get(sandbox.org_id, sandbox.id)
        stopped = current is None or current.state is not SandboxState.RUNNING
        if stopped and self._live.remove(sandbox.id) is not None:
            await self._provisioning.stop(machine)

    async def _watch(self, live: LiveSandbox) -> None:
        reason = await live.machine.wait()
        if live.ended.is_set():
            return
        _log.warning("a sandbox's machine ended by itself", sandbox=live.id, reason=reason)
        if await self._record_crash(live) and self._live.remove(live.id) is not None:
            await self._provisioning.stop(live.machine)

    async def _record_crash(self, live: LiveSandbox) -> bool:
        """False: the sandbox goes on without this machine."""
        while True:
            # What is under way finds its machine ended, and brings the sandbox to a state of rest.
            await self._transitions.over(live.id)
            row = await self._sandboxes.get(live.sandbox.org_id, live.id)
            if live.ended.is_set():
                return False
            if self._transitions.busy(live.id):
                continue
            if row is None or row.state not in ACTIVE:
                return True
            if await self._moves.move(row, row.state, SandboxState.STOPPED, reason=StopReason.CRASH):
                return True

    async def get(self, org_id: OrgId, sandbox_id: SandboxId) -> Sandbox:
        sandbox = await self._sandboxes.get(org_id, sandbox_id)
        if sandbox is None or not sandbox.visible:
            raise NotFound("there is no such sandbox")
        return sandbox

    async def list(
        self, org_id: OrgId, states: Sequence[SandboxState], *, limit: int, after: SandboxId | None
    ) -> Sequence[Sandbox]:
        """Newest first; `after` names the last sandbox of the previous page."""
        last = None if after is None else await self.get(org_id, after)
        return await self._sandboxes.list(org_id, states, limit=min(limit, MAX_PAGE), before=last)

    async def running(self, org_id: OrgId, sandbox_id: SandboxId) -> LiveSandbox:
        """The machine of a sandbox that runs now; it is not woken for this.

        Raises Gone, OperationInProgress, and InvalidInput when it is asleep.
        """
        sandbox = await self.get(org_id, sandbox_id)
        if sandbox.state is SandboxState.STOPPED:
            raise Gone
        if self._transitions.closes(sandbox_id):
            raise OperationInProgress
        live = self._live.get(org_id, sandbox_id)
        if live is not None:
            return live
        if sandbox.state in ACTIVE:
            raise NotReady("the sandbox is not ready on this server yet")
        raise InvalidInput("the sandbox is not running", status=shown(sandbox.state))

    async def held(self, live: LiveSandbox) -> Sandbox:
        """The row of a sandbox which the caller has excluded others from.

        Raises Gone; and OperationInProgress when it got another machine, or none, before they were.
        """
        sandbox = await self.get(live.sandbox.org_id, live.id)
        if sandbox.state is SandboxState.STOPPED:
            raise Gone
        if live.ended.is_set():
            raise OperationInProgress
        return sandbox

    async def kill(self, org_id: OrgId, sandbox_id: SandboxId, *, forget_key: bool = False) -> None:
        """Stop for good. Stopping a stopped sandbox is not an error; clean-up goes on after the answer.

        Wins over whatever is under way: that finds its sandbox stopped and ends its machine. With
        `forget_key` nobody has learnt of it, and its idempotency key may make another.
        """
        work = self._kill(org_id, sandbox_id, {"idempotency_key": None} if forget_key else {})
        await self._background.carry_out(work, name=f"kill {sandbox_id}")

    async def _kill(self, org_id: OrgId, sandbox_id: SandboxId, fields: SandboxFields) -> None:
        stopped, reason = SandboxState.STOPPED, StopReason.USER_REQUESTED
        while True:
            sandbox = await self.get(org_id, sandbox_id)
            if sandbox.state is stopped:
                if fields:
                    await self._sandboxes.update(sandbox_id, fields)
                return
            if await self._moves.move(sandbox, sandbox.state, stopped, reason=reason, fields=fields):
                break
        live = self._live.remove(sandbox_id)
        if live is not None:
            self._background.start(
                self._provisioning.stop(live.machine), name=f"stop {sandbox_id}", finish=True
            )
        # Read again: it may have slept, as something else, since the row was read.
        sandbox = await self.get(org_id, sandbox_id)
        if sandbox.hibernation is not None:
            await self._snapshots.remove(sandbox.hibernation)

    async def set_timeout(self, org_id: OrgId, sandbox_id: SandboxId, seconds: int) -> None:
        """Change the idle timeout; the period begins now. A sandbox that sleeps gets it when it wakes."""
        sandbox = await self.get(org_id, sandbox_id)
        if sandbox.state is SandboxState.STOPPED:
            raise Gone
        due_at = deadline(self._clock.now(), seconds) if sandbox.state is SandboxState.RUNNING else None
        await self._sandboxes.update(sandbox_id, {"timeout_seconds": seconds, "due_at": due_at})

    async def detach(self) -> None:
        """Let go of every machine without ending it: the next process adopts them.

        What is under way with them comes to its end before, and when they were used last is written down.
        """
        await self._background.finish()
        for row in await self._sandboxes.in_states([SandboxState.RUNNING]):
            live = self._live.get(row.org_id, row.id)
            due_at = None if live is None else deadline(live.activity.last(), row.timeout_seconds)
            if due_at is not None and row.due_at is not None and due_at > row.due_at:
                await self._sandboxes.update(row.id, {"due_at": due_at})
        for live in self._live:
            self._live.remove(live.id, Ending.HANDED_ON)
            await live.machine.detach()
