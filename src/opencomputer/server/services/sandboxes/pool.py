"""Machines that are started ahead, frozen, so that create is a claim."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field, replace

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.driver import Limits, MachineSpec
from opencomputer.server.contracts.host import HostGauge
from opencomputer.server.contracts.machine import Machine
from opencomputer.server.contracts.stores import MachineRow
from opencomputer.server.contracts.templates import TemplateLayers
from opencomputer.server.domain import naming
from opencomputer.server.domain.capacity import PoolPolicy, pool_target
from opencomputer.server.domain.errors import NoCapacity, OpenComputerError, StartFailed
from opencomputer.server.services.background import Background
from opencomputer.server.services.sandboxes.admission import Admission
from opencomputer.server.services.sandboxes.golden import GoldenImages
from opencomputer.server.services.sandboxes.provisioning import Provisioning
from opencomputer.server.services.sandboxes.rehearsal import rehearse
from opencomputer.wire.ids import SandboxId

_log = structlog.get_logger(__name__)

_DEMAND_WINDOW_SECONDS = 600.0
_CAPACITY_POLL_SECONDS = 2.0
_CLAIM_SECONDS = 30.0
_FIRST_BACKOFF_SECONDS = 1.0
_LONGEST_BACKOFF_SECONDS = 60.0
_REFILL_WEIGHT = 1
_QUIET_SECONDS = 0.5
_LOW_SHARE = 0.25
# A shell, the dynamic linker and one large program: what most first commands need.
_REHEARSED = (("/bin/sh", "-c", "node -v"),)


@dataclass(frozen=True)
class PoolSettings:
    """`limits` are those of every member; `parallel_starts` as in `Admission`."""

    policy: PoolPolicy
    limits: Limits
    parallel_starts: int


@dataclass
class _Shelf:
    """What the pool holds and owes for one template. A retired one only serves those who wait already."""

    template: TemplateLayers
    ready: deque[Machine] = field(default_factory=deque[Machine])
    waiting: deque[asyncio.Future[Machine]] = field(default_factory=deque[asyncio.Future[Machine]])
    claims: deque[float] = field(default_factory=deque[float])
    starting: int = 0
    failures: int = 0
    refusal: str | None = None
    retry_at: float = 0.0
    """No start at all before: the host has no room."""
    refill_at: float = 0.0
    """No refill before: starts have failed. One who asks is answered by a start all the same."""
    retired: bool = False


class Pool:
    """Hands out machines. Claims that find none ready wait in order; starts serve them first.

    When nobody waits the pool is refilled, one machine at a time and with what the processor has left, so
    that the host belongs to those who use it; while enough is left, not before the last claim is a moment
    ago. A member has had a rehearsal; its claimer sets its limits and what it
    may reach.
    """

    def __init__(
        self,
        settings: PoolSettings,
        provisioning: Provisioning,
        golden: GoldenImages,
        admission: Admission,
        gauge: HostGauge,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._provisioning = provisioning
        self._golden = golden
        self._admission = admission
        self._gauge = gauge
        self._clock = clock
        self._shelves: dict[str, _Shelf] = {}
        self._changed = asyncio.Event()
        self._background = Background()
        self._closing = False

    async def __aenter__(self) -> Pool:
        await self._background.__aenter__()
        self._background.start(self._keep(), name="pool")
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stop refilling and end the members that nobody has claimed."""
        self._closing = True
        await self._background.__aexit__(None, None, None)
        members = [machine for shelf in self._shelves.values() for machine in shelf.ready]
        for shelf in self._shelves.values():
            shelf.ready.clear()
        await asyncio.gather(*(self._provisioning.stop(machine) for machine in members))

    def sizes(self) -> dict[str, int]:
        """Ready machines by template name."""
        return {
            shelf.template.name: len(shelf.ready) for shelf in self._shelves.values() if not shelf.retired
        }

    def stock(self, template: TemplateLayers) -> None:
        """Keep machines of this template ready from now on; an older build of it is no longer kept."""
        for shelf in list(self._shelves.values()):
            if shelf.template.name == template.name and shelf.template.hash != template.hash:
                self._retire(shelf)
        self._shelf(template).retired = False
        self._changed.set()

    def accepts(self, row: MachineRow, template: TemplateLayers | None) -> bool:
        """Whether a machine of an earlier process is one we would start today."""
        return (
            template is not None
            and row.template_hash == template.hash
            and row.image_version == self._provisioning.image_version
        )

    def put(self, template: TemplateLayers, machine: Machine) -> None:
        self._shelf(template).ready.append(machine)

    async def claim(self, template: TemplateLayers, limits: Limits | None = None) -> Machine:
        """A machine that nobody else has. Raises NoCapacity when none could be had in time.

        One of another size than members have is started for this: what programs inside see of their memory
        and disk is settled when a machine is born.
        """
        shelf = self._shelf(template)
        limits = limits or self._settings.limits
        if limits != self._settings.limits:
            return await self._start_apart(shelf, limits)
        shelf.claims.append(self._clock.monotonic())
        self._drop_dead(shelf)
        self._changed.set()
        if shelf.ready:
            return shelf.ready.popleft()
        return await self._wait(shelf)

    async def _wait(self, shelf: _Shelf) -> Machine:
        future: asyncio.Future[Machine] = asyncio.get_running_loop().create_future()
        shelf.waiting.append(future)
        try:
            async with asyncio.timeout(_CLAIM_SECONDS):
                return await future
        except TimeoutError:
            if _has_result(future):
                return future.result()
            raise NoCapacity(shelf.refusal) from None
        except asyncio.CancelledError:
            if _has_result(future):
                self._place(shelf, future.result())
            raise
        finally:
            with suppress(ValueError):
                shelf.waiting.remove(future)

    async def spare(self, template: TemplateLayers, owner: SandboxId) -> Machine:
        """A machine like the members, made for somebody who will not use it at once, with a rehearsal.

        With `owner`, which is no sandbox, it is not taken for a member should this process end.
        """
        limits = replace(self._settings.limits, cpu_weight=_REFILL_WEIGHT)
        machine = await self._start(self._shelf(template), limits, owner)
        await self._rehearse(machine, self._provisioning.guest_token(machine))
        return machine

    async def _start_apart(self, shelf: _Shelf, limits: Limits) -> Machine:
        try:
            async with asyncio.timeout(_CLAIM_SECONDS):
                return await self._start(shelf, limits)
        except TimeoutError:
            raise NoCapacity from None

    def _shelf(self, template: TemplateLayers) -> _Shelf:
        return self._shelves.setdefault(template.hash, _Shelf(template))

    def _retire(self, shelf: _Shelf) -> None:
        shelf.retired = True
        while shelf.ready:
            self._discard(shelf.ready.popleft())

    def _discard(self, machine: Machine) -> None:
        self._background.start(self._provisioning.stop(machine), name="discard a machine", finish=True)

    async def _keep(self) -> None:
        """Start what is wanted; wait until something changes or a refusal may have passed."""
        while True:
            self._changed.clear()
            delay = min((self._serve(shelf) for shelf in list(self._shelves.values())), default=3600.0)
            # Not wait_for: on Python 3.11 that may swallow the cancellation which is to end this loop.
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._changed.wait()

    def _serve(self, shelf: _Shelf) -> float:
        """Begin the starts one shelf needs now; return after how many seconds to look again."""
        self._drop_dead(shelf)
        now = self._clock.monotonic()
        if now < shelf.retry_at:
            return shelf.retry_at - now
        owed = len(shelf.waiting) - shelf.starting
        for _ in range(min(owed, self._settings.parallel_starts - shelf.starting)):
            self._begin(shelf)
        if shelf.waiting or shelf.starting:
            return _CAPACITY_POLL_SECONDS
        if shelf.retired:
            del self._shelves[shelf.template.hash]
        elif now < shelf.refill_at:
            return min(_CAPACITY_POLL_SECONDS, shelf.refill_at - now)
        elif len(shelf.ready) < (target := self._target(shelf, now)):
            pause = self._pause_for_claims(shelf, now, target)
            if pause > 0:
                return pause
            self._begin(shelf)
        return _CAPACITY_POLL_SECONDS

    def _pause_for_claims(self, shelf: _Shelf, now: float, target: int) -> float:
        """How long a refill has to wait. A client that creates one sandbox after another would be slowed
        down by it; when little is left, it would be slowed down more by finding nothing."""
        if not shelf.claims or len(shelf.ready) <= target * _LOW_SHARE:
            return 0.0
        return _QUIET_SECONDS - (now - shelf.claims[-1])

    def _drop_dead(self, shelf: _Shelf) -> None:
        for machine in [member for member in shelf.ready if member.lost]:
            shelf.ready.remove(machine)
            self._discard(machine)

    def _target(self, shelf: _Shelf, now: float) -> int:
        while shelf.claims and shelf.claims[0] < now - _DEMAND_WINDOW_SECONDS:
            shelf.claims.popleft()
        load = self._gauge.load(self._provisioning.count)
        return pool_target(self._settings.policy, load.total_memory_bytes, len(shelf.claims))

    def _begin(self, shelf: _Shelf) -> None:
        shelf.starting += 1
        self._background.start(self._produce(shelf), name="start a machine")

    async def _produce(self, shelf: _Shelf) -> None:
        try:
            machine = await self._start(shelf)
            shelf.failures, shelf.refusal = 0, None
        except NoCapacity as refused:
            shelf.refusal = refused.message
            shelf.retry_at = self._clock.monotonic() + _CAPACITY_POLL_SECONDS
            return
        except Exception as error:
            # The top of a task: whatever went wrong is told to one who waits, who would wait for ever else.
            self._failed(shelf, error)
            return
        finally:
            shelf.starting -= 1
            self._changed.set()
        if self._place(shelf, machine):
            with suppress(OpenComputerError):
                await machine.rest()

    def _failed(self, shelf: _Shelf, error: Exception) -> None:
        """Tell one who waits, and slow down: a template that cannot start must not eat the host."""
        shelf.failures += 1
        backoff = min(_FIRST_BACKOFF_SECONDS * 2 ** (shelf.failures - 1), _LONGEST_BACKOFF_SECONDS)
        _log.error(
            "a machine did not start",
            template=shelf.template.name,
            failures=shelf.failures,
            exc_info=error,
        )
        if shelf.waiting:
            future = shelf.waiting.popleft()
            if not future.done():
                future.set_exception(error if isinstance(error, OpenComputerError) else StartFailed())
        else:
            shelf.refill_at = self._clock.monotonic() + backoff

    def _place(self, shelf: _Shelf, machine: Machine) -> bool:
        """Give a machine to the first who waits, else keep it (True), or end it when nobody will want it."""
        while shelf.waiting:
            future = shelf.waiting.popleft()
            if not future.done():
                future.set_result(machine)
                return False
        if self._closing or shelf.retired:
            self._discard(machine)
            return False
        shelf.ready.append(machine)
        return True

    async def _start(
        self, shelf: _Shelf, apart: Limits | None = None, owner: SandboxId | None = None
    ) -> Machine:
        async with self._admission.place():
            limits = apart or self._settings.limits
            golden = await self._golden.get(shelf.template, limits)
            token = golden.guest_token if golden else naming.new_guest_token()
            ahead = apart is None and not shelf.waiting
            spec = MachineSpec(
                id=self._provisioning.new_id(),
                layers=(*shelf.template.layers, *((golden.layer_folder,) if golden else ())),
                limits=replace(limits, cpu_weight=_REFILL_WEIGHT) if ahead else limits,
                token=token,
                memory_image=golden.memory if golden else None,
            )
            machine = await self._provisioning.start(
                spec,
                shelf.template.hash,
                guest_token=token,
                sandbox_id=owner,
                layers=(golden.layer,) if golden else (),
            )
            if ahead and not shelf.waiting:
                await self._rehearse(machine, token)
            return machine

    async def _rehearse(self, machine: Machine, token: str) -> None:
        try:
            await rehearse(machine, token, _REHEARSED, self._settings.limits)
        except BaseException:
            await asyncio.shield(self._provisioning.stop(machine))
            raise


def _has_result(future: asyncio.Future[Machine]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
