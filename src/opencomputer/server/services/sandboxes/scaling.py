"""The size of a sandbox, and everything that changes it: one path with one set of rules (behaviour 27).

A change is written down before the machine is touched and is the sandbox's size only afterwards, so that
after any failure the machine can be given the size that the row says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.machine import Machine
from opencomputer.server.contracts.stores import SandboxStore
from opencomputer.server.domain.elasticity import (
    Bounds,
    Step,
    after_step,
    allowed_bounds,
    check_bounds,
    check_floor,
    check_size,
    check_unlocked,
    may_step,
    with_lock,
)
from opencomputer.server.domain.errors import Conflict, Gone, GuestFault, OomFloor, OpenComputerError
from opencomputer.server.domain.limits import TIERS
from opencomputer.server.domain.sandbox import TERMINAL, Elasticity, Sandbox, SandboxShape, SandboxState
from opencomputer.server.services.sandboxes.admission import Admission
from opencomputer.server.services.sandboxes.boot import machine_limits
from opencomputer.server.services.sandboxes.live import LiveSandbox
from opencomputer.server.services.sandboxes.machinery import Machinery
from opencomputer.wire.ids import OrgId, SandboxId

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Size:
    """What is asked for. Either may be left out, and where both are given they must fit together."""

    memory_mb: int | None = None
    cpu_percent: int | None = None


@dataclass(frozen=True)
class Scaled:
    sandbox: Sandbox
    autoscale_disabled: bool


@dataclass(frozen=True)
class AutoscaleRequest:
    """Bounds that are None stay as they are."""

    enabled: bool
    min_memory_mb: int | None = None
    max_memory_mb: int | None = None


@dataclass(frozen=True)
class Autoscale:
    enabled: bool
    bounds: Bounds


class Scaling:
    """`memory_cap_mb` is the largest size that this server allows; None: the largest there is."""

    def __init__(self, machinery: Machinery, admission: Admission, memory_cap_mb: int | None) -> None:
        self._sandboxes = machinery.sandboxes
        self._lifecycle = machinery.lifecycle
        self._transitions = machinery.transitions
        self._clock = machinery.clock
        self._background = machinery.background
        self._admission = admission
        self._cap_mb = memory_cap_mb

    async def scale(self, org_id: OrgId, sandbox_id: SandboxId, size: Size) -> Scaled:
        """Give a running sandbox another size, and switch autoscaling off. Its processes go on, and more
        memory can be used when this returns. On failure everything is as it was.

        Raises ScalingLocked, PlanLimit, InvalidInput (no such size, or asleep), Gone, OomFloor, NoCapacity,
        OperationInProgress.
        """
        live = await self._lifecycle.running(org_id, sandbox_id)
        with live.activity.request():
            return await self.scale_live(live, size)

    async def scale_live(self, live: LiveSandbox, size: Size) -> Scaled:
        """As `scale`, for a machine that asks for itself: that does not keep it awake."""
        return await self._background.carry_out(self._scale(live, size), name=f"scale {live.id}")

    async def _scale(self, live: LiveSandbox, size: Size) -> Scaled:
        with self._transitions.exclusive(live.id, "a change of size", closes=False):
            sandbox = await self._lifecycle.held(live)
            memory_mb = check_size(sandbox.elasticity, size.memory_mb, size.cpu_percent, self._cap_mb)
            return await self._resize(live, sandbox, memory_mb, by_hand=True)

    async def take_step(self, live: LiveSandbox, step: Step) -> bool:
        """A change that nobody asked for. Whoever writes its pause down first takes it; the pause begins even
        when the step then fails. False: it is not to be taken after all. Raises as `scale`."""
        with self._transitions.exclusive(live.id, "a change of size", closes=False):
            sandbox = await self._lifecycle.held(live)
            now = self._clock.now()
            if not may_step(sandbox.elasticity, step, now):
                return False
            claimed = after_step(sandbox.elasticity, step, now)
            if not await self._sandboxes.rescale(sandbox.id, sandbox.elasticity, claimed, at=now):
                return False
            memory_mb = check_size(claimed, step.memory_mb, None, self._cap_mb)
            await self._resize(live, replace(sandbox, elasticity=claimed), memory_mb, by_hand=False)
            return True

    async def _resize(self, live: LiveSandbox, sandbox: Sandbox, memory_mb: int, *, by_hand: bool) -> Scaled:
        shape = sized(sandbox.shape, memory_mb)
        if shape == sandbox.shape:
            return await self._record(live, shape, by_hand=by_hand)
        await self._check_fits(live, sandbox, memory_mb)
        try:
            await self._intend(sandbox, memory_mb)
            await _resize_machine(live.machine, shape)
            return await self._record(live, shape, by_hand=by_hand)
        except BaseException:
            await asyncio.shield(self._undo(live))
            raise

    async def _check_fits(self, live: LiveSandbox, sandbox: Sandbox, memory_mb: int) -> None:
        if memory_mb > sandbox.shape.memory_mb:
            await self._admission.check_growth()
        else:
            check_floor(memory_mb, await _used_bytes(live.machine))

    async def _intend(self, sandbox: Sandbox, memory_mb: int) -> None:
        def intended(elasticity: Elasticity) -> Elasticity:
            # It may have been locked since it was looked at.
            check_unlocked(elasticity)
            return replace(elasticity, resize_mb=memory_mb)

        await self._change(sandbox.org_id, sandbox.id, intended)

    async def _record(self, live: LiveSandbox, shape: SandboxShape, *, by_hand: bool) -> Scaled:
        """The size is the sandbox's from now on. Raises Gone."""

        def recorded(elasticity: Elasticity) -> Elasticity:
            return replace(elasticity, resize_mb=None, autoscale=elasticity.autoscale and not by_hand)

        before, after = await self._change(live.sandbox.org_id, live.id, recorded, shape)
        live.sandbox = replace(live.sandbox, shape=shape)
        return Scaled(after, before.elasticity.autoscale and not after.elasticity.autoscale)

    async def _undo(self, live: LiveSandbox) -> None:
        try:
            row = await settle_size(self._sandboxes, live.sandbox, live.machine, self._clock)
        except OpenComputerError as error:
            _log.warning("a change of size could not be undone", sandbox=live.id, reason=error.message)
        else:
            live.sandbox = replace(live.sandbox, shape=row.shape)

    async def autoscale(self, org_id: OrgId, sandbox_id: SandboxId) -> Autoscale:
        """Whether it scales by itself, and between which sizes it does or would."""
        return self._shown(await self._lifecycle.get(org_id, sandbox_id))

    async def set_autoscale(
        self, org_id: OrgId, sandbox_id: SandboxId, request: AutoscaleRequest
    ) -> Autoscale:
        """Switch autoscaling on or off, in whatever state but stopped.

        Raises ScalingLocked, PlanLimit, InvalidInput, Gone.
        """
        sandbox = await self._lifecycle.get(org_id, sandbox_id)

        def changed(elasticity: Elasticity) -> Elasticity:
            wished = replace(
                elasticity,
                min_memory_mb=request.min_memory_mb or elasticity.min_memory_mb,
                max_memory_mb=request.max_memory_mb or elasticity.max_memory_mb,
            )
            bounds = allowed_bounds(wished, sandbox.shape.memory_mb, self._cap_mb)
            check_bounds(elasticity, bounds, self._cap_mb, enabled=request.enabled)
            if not request.enabled:
                return replace(wished, autoscale=False)
            return replace(
                elasticity,
                autoscale=True,
                min_memory_mb=bounds.min_memory_mb,
                max_memory_mb=bounds.max_memory_mb,
            )

        _, after = await self._change(org_id, sandbox_id, changed)
        return self._shown(after)

    def _shown(self, sandbox: Sandbox) -> Autoscale:
        bounds = allowed_bounds(sandbox.elasticity, sandbox.shape.memory_mb, self._cap_mb)
        return Autoscale(sandbox.elasticity.autoscale, bounds)

    async def locked(self, org_id: OrgId, sandbox_id: SandboxId) -> bool:
        return (await self._lifecycle.get(org_id, sandbox_id)).elasticity.locked

    async def set_lock(self, org_id: OrgId, sandbox_id: SandboxId, *, locked: bool) -> bool:
        """Keep the size as it is, or let it be changed again. Raises Gone."""
        _, after = await self._change(
            org_id, sandbox_id, lambda elasticity: with_lock(elasticity, locked=locked)
        )
        return after.elasticity.locked

    async def _change(
        self,
        org_id: OrgId,
        sandbox_id: SandboxId,
        change: Callable[[Elasticity], Elasticity],
        shape: SandboxShape | None = None,
    ) -> tuple[Sandbox, Sandbox]:
        """The row before and after. Raises Gone, and whatever `change` raises."""
        while True:
            before = await self._lifecycle.get(org_id, sandbox_id)
            if before.state in TERMINAL or (shape is not None and before.state is not SandboxState.RUNNING):
                raise Gone
            after = replace(before, elasticity=change(before.elasticity), shape=shape or before.shape)
            if after == before:
                return before, after
            now = self._clock.now()
            if await self._sandboxes.rescale(
                sandbox_id, before.elasticity, after.elasticity, at=now, shape=shape
            ):
                return before, after


def sized(shape: SandboxShape, memory_mb: int) -> SandboxShape:
    return replace(shape, memory_mb=memory_mb, cpu_count=TIERS[memory_mb])


async def settle_size(sandboxes: SandboxStore, sandbox: Sandbox, machine: Machine, clock: Clock) -> Sandbox:
    """The row of a running sandbox, once it and the machine say the same after a change that did not come to
    its end. Nobody was told that it had: the old size holds, unless more than that is used by now."""
    while True:
        row = await sandboxes.get(sandbox.org_id, sandbox.id)
        if row is None or row.state is not SandboxState.RUNNING:
            raise Gone
        intended = row.elasticity.resize_mb
        if intended is None:
            await _fit(machine, row.shape)
            return row
        shape = await _fit_either(machine, row.shape, sized(row.shape, intended))
        settled = replace(row, shape=shape, elasticity=replace(row.elasticity, resize_mb=None))
        if await sandboxes.rescale(row.id, row.elasticity, settled.elasticity, at=clock.now(), shape=shape):
            return settled


async def _fit_either(machine: Machine, before: SandboxShape, after: SandboxShape) -> SandboxShape:
    for shape in (before, after):
        with suppress(Conflict):
            await _fit(machine, shape)
            return shape
    # It uses more than either, which its kernel may for itself: it has what it had.
    return before


async def _fit(machine: Machine, shape: SandboxShape) -> None:
    try:
        await machine.resize(machine_limits(shape))
    except GuestFault as error:
        # It has the size; its guest, which does not answer, would only have told programs.
        _log.warning("a machine's guest was not told its size", machine=machine.id, reason=error.message)


async def _resize_machine(machine: Machine, shape: SandboxShape) -> None:
    try:
        await machine.resize(machine_limits(shape))
    except Conflict as error:
        # It has begun to use more since it was looked at.
        raise OomFloor from error


async def _used_bytes(machine: Machine) -> int | None:
    try:
        return (await machine.usage()).memory_bytes
    except (OSError, ValueError):
        return None
