"""Create, get, list, kill: the life of a sandbox."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.driver import Limits
from opencomputer.server.contracts.machine import Identity, Machine
from opencomputer.server.contracts.stores import SandboxStore
from opencomputer.server.contracts.templates import TemplateCatalogue, TemplateLayers
from opencomputer.server.domain import naming
from opencomputer.server.domain.errors import (
    Conflict,
    Gone,
    IdempotencyMismatch,
    MachineLost,
    NotFound,
    NotReady,
    OperationInProgress,
    StartFailed,
)
from opencomputer.server.domain.sandbox import Sandbox, SandboxShape, SandboxState, StopReason
from opencomputer.server.services.background import Background
from opencomputer.server.services.sandboxes.live import LiveSandbox, LiveSandboxes
from opencomputer.server.services.sandboxes.pool import Pool
from opencomputer.server.services.sandboxes.provisioning import Provisioning
from opencomputer.wire.ids import OrgId, SandboxId

_log = structlog.get_logger(__name__)

DEFAULT_TEMPLATE = "base"
_TEMPLATE_ALIASES = frozenset({"", "base", "default", "ubuntu"})
MAX_PAGE = 200
_CREATE_ATTEMPTS = 5


@dataclass(frozen=True)
class NewSandbox:
    """A create that has been validated. `request_hash` tells whether a repeated key means the same."""

    template: str
    shape: SandboxShape
    timeout_seconds: int
    environment: Mapping[str, str]
    metadata: Mapping[str, str]
    alias: str | None
    network_enabled: bool
    idempotency_key: str | None
    request_hash: str


def machine_limits(shape: SandboxShape) -> Limits:
    return Limits(
        memory_bytes=shape.memory_mb << 20, cpu_percent=100 * shape.cpu_count, disk_bytes=shape.disk_mb << 20
    )


class Lifecycle:
    """The use cases of `/api/sandboxes`. Each change of state is a compare-and-set in the store."""

    def __init__(
        self,
        sandboxes: SandboxStore,
        live: LiveSandboxes,
        pool: Pool,
        provisioning: Provisioning,
        templates: TemplateCatalogue,
        clock: Clock,
        background: Background,
        *,
        concurrency_limit: int | None,
    ) -> None:
        self._sandboxes = sandboxes
        self._live = live
        self._pool = pool
        self._provisioning = provisioning
        self._templates = templates
        self._clock = clock
        self._background = background
        self._concurrency_limit = concurrency_limit
        self._creating: dict[SandboxId, asyncio.Event] = {}

    async def create(self, org_id: OrgId, request: NewSandbox) -> Sandbox:
        """Return a sandbox that is usable now. A create that fails or is cancelled leaves nothing."""
        for _ in range(_CREATE_ATTEMPTS):
            earlier = await self._earlier(org_id, request)
            if earlier is not None:
                return earlier
            template = self._template(request.template)
            sandbox = self._new_row(org_id, request, template)
            finished = self._creating.setdefault(sandbox.id, asyncio.Event())
            try:
                if await self._reserve(sandbox):
                    return await self._boot(sandbox, template)
            finally:
                self._creating.pop(sandbox.id, None)
                finished.set()
        raise OperationInProgress("the create with this idempotency key is in progress")

    async def _reserve(self, sandbox: Sandbox) -> bool:
        """Write the row that everything else hangs on. False: its key, or its id, was taken meanwhile."""
        try:
            await self._sandboxes.add(sandbox, concurrency_limit=self._concurrency_limit)
        except Conflict:
            return False
        return True

    async def _earlier(self, org_id: OrgId, request: NewSandbox) -> Sandbox | None:
        """What an earlier create with the same key made; waits for it when it is still under way."""
        if request.idempotency_key is None:
            return None
        while True:
            earlier = await self._sandboxes.by_idempotency_key(org_id, request.idempotency_key)
            if earlier is None:
                return None
            if earlier.request_hash != request.request_hash:
                raise IdempotencyMismatch
            if earlier.state is not SandboxState.CREATING:
                return earlier
            finished = self._creating.get(earlier.id)
            if finished is None:
                raise OperationInProgress("the create with this idempotency key is in progress")
            await finished.wait()

    def _template(self, name: str) -> TemplateLayers:
        found = self._templates.get(DEFAULT_TEMPLATE if name in _TEMPLATE_ALIASES else name)
        if found is None:
            raise NotFound("there is no template of this name", field="templateID")
        return found

    def _new_row(self, org_id: OrgId, request: NewSandbox, template: TemplateLayers) -> Sandbox:
        return Sandbox(
            id=naming.new_sandbox_id(),
            org_id=org_id,
            state=SandboxState.CREATING,
            template=template.name,
            template_hash=template.hash,
            shape=request.shape,
            timeout_seconds=request.timeout_seconds,
            environment=request.environment,
            metadata=request.metadata,
            alias=request.alias,
            network_enabled=request.network_enabled,
            machine_id=None,
            created_at=self._clock.now(),
            idempotency_key=request.idempotency_key,
            request_hash=request.request_hash,
        )

    async def _boot(self, sandbox: Sandbox, template: TemplateLayers) -> Sandbox:
        machine: Machine | None = None
        try:
            machine = await self._machine_for(sandbox, template)
            now = self._clock.now()
            if not await self._sandboxes.move(
                sandbox.id, SandboxState.CREATING, SandboxState.RUNNING, at=now
            ):
                raise Conflict("the sandbox was killed while it was created")
        except BaseException:
            await asyncio.shield(self._undo(sandbox, machine))
            raise
        created = replace(sandbox, state=SandboxState.RUNNING, started_at=now, machine_id=machine.id)
        self.attend(created, machine)
        return created

    async def _machine_for(self, sandbox: Sandbox, template: TemplateLayers) -> Machine:
        """A machine that is this sandbox's own. One that ends just when it is claimed is replaced once."""
        try:
            return await self._claim(sandbox, template)
        except MachineLost:
            _log.warning("a machine ended while it was claimed; taking another", sandbox=sandbox.id)
        try:
            return await self._claim(sandbox, template)
        except MachineLost as error:
            raise StartFailed from error

    async def _claim(self, sandbox: Sandbox, template: TemplateLayers) -> Machine:
        machine = await self._pool.claim(
            template, machine_limits(sandbox.shape), network=sandbox.network_enabled
        )
        try:
            await self._settle(sandbox, machine)
        except BaseException:
            await asyncio.shield(self._provisioning.stop(machine))
            raise
        return machine

    async def _settle(self, sandbox: Sandbox, machine: Machine) -> None:
        """Make a pooled machine this sandbox's own."""
        token = naming.new_guest_token()
        await machine.set_limits(machine_limits(sandbox.shape))
        await self._provisioning.claim(machine, sandbox.id, token)
        await machine.identify(
            Identity(
                sandbox_id=sandbox.id,
                hostname=sandbox.id,
                machine_id=secrets.token_hex(16),
                token=token,
                entropy=secrets.token_bytes(64),
                environment=sandbox.environment,
            )
        )

    async def _undo(self, sandbox: Sandbox, machine: Machine | None) -> None:
        if machine is not None:
            await self._provisioning.stop(machine)
        await self._move(sandbox, SandboxState.CREATING, SandboxState.FAILED, StopReason.START_FAILED)

    async def _move(
        self, sandbox: Sandbox, before: SandboxState, after: SandboxState, reason: StopReason | None = None
    ) -> bool:
        return await self._sandboxes.move(sandbox.id, before, after, at=self._clock.now(), reason=reason)

    def attend(self, sandbox: Sandbox, machine: Machine) -> LiveSandbox:
        """Serve a running sandbox from now on, and notice when its machine ends."""
        live = LiveSandbox(sandbox, machine)
        self._live.add(live)
        self._background.start(self._watch(live), name=f"watch {sandbox.id}")
        return live

    async def resume(self, sandbox: Sandbox, machine: Machine) -> None:
        """Serve a sandbox of an earlier process again, unless it has been killed meanwhile."""
        self.attend(sandbox, machine)
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
        await self._move(live.sandbox, SandboxState.RUNNING, SandboxState.STOPPED, StopReason.CRASH)
        if self._live.remove(live.id) is not None:
            await self._provisioning.stop(live.machine)

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

    async def live(self, org_id: OrgId, sandbox_id: SandboxId) -> LiveSandbox:
        """The running machine of a sandbox, for the data plane."""
        live = self._live.get(org_id, sandbox_id)
        if live is not None:
            return live
        sandbox = await self.get(org_id, sandbox_id)
        if sandbox.state is SandboxState.STOPPED:
            raise Gone
        raise NotReady("the sandbox is not ready on this server yet")

    async def kill(self, org_id: OrgId, sandbox_id: SandboxId) -> None:
        """Stop for good. Stopping a stopped sandbox is not an error; clean-up goes on after the answer."""
        sandbox = await self.get(org_id, sandbox_id)
        if sandbox.state is SandboxState.STOPPED:
            return
        await self._move(sandbox, SandboxState.RUNNING, SandboxState.STOPPED, StopReason.USER_REQUESTED)
        live = self._live.remove(sandbox_id)
        if live is not None:
            self._background.start(
                self._provisioning.stop(live.machine), name=f"stop {sandbox_id}", finish=True
            )

    async def set_timeout(self, org_id: OrgId, sandbox_id: SandboxId, seconds: int) -> None:
        sandbox = await self.get(org_id, sandbox_id)
        if sandbox.state is SandboxState.STOPPED:
            raise Gone
        await self._sandboxes.set_timeout(org_id, sandbox_id, seconds)

    async def detach(self) -> None:
        """Let go of every machine without ending it: the next process adopts them."""
        for live in self._live:
            self._live.remove(live.id, moved=True)
            await live.machine.detach()
