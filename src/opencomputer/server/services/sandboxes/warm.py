"""Machines in which a program runs already, before anybody asks for one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.machine import Machine
from opencomputer.server.contracts.templates import TemplateCatalogue
from opencomputer.server.domain.errors import NoCapacity, OpenComputerError
from opencomputer.server.services.background import Background
from opencomputer.server.services.sandboxes.pool import Pool
from opencomputer.server.services.sandboxes.provisioning import Provisioning
from opencomputer.wire.ids import SandboxId

_log = structlog.get_logger(__name__)

NOBODY = SandboxId("warm")
"""Whose these machines are so far: the next process removes them when this one dies."""

_WANTED_SECONDS = 3600.0
_LOOK_SECONDS = 60.0

Prepare = Callable[[Machine], Awaitable[None]]
"""Starts the program in a machine, and waits until it is ready."""


@dataclass
class _Kind:
    """`wanted_at`: when somebody last asked for one of these."""

    template: str
    prepare: Prepare
    wanted_at: float
    ready: Machine | None = None
    starting: bool = False
    failed_at: float | None = None


class WarmMachines:
    """Keeps one machine of each kind that was asked for within the last hour.

    They are a convenience: who finds none takes an ordinary machine, and nobody waits for one.
    """

    def __init__(
        self, pool: Pool, provisioning: Provisioning, templates: TemplateCatalogue, clock: Clock
    ) -> None:
        self._pool = pool
        self._provisioning = provisioning
        self._templates = templates
        self._clock = clock
        self._kinds: dict[str, _Kind] = {}
        self._background = Background()
        self._closed = False

    def expect(self, key: str, template: str, prepare: Prepare) -> None:
        """Say that machines of this kind are wanted. `key` stands for the program and all it depends on."""
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Kind(template, prepare, self._clock.monotonic())
        kind.wanted_at = self._clock.monotonic()
        self._refill(key, kind)

    def take(self, key: str) -> Machine | None:
        """A machine of this kind, if one is ready. It is the caller's, who has to end it or give it away."""
        kind = self._kinds.get(key)
        if kind is None or kind.ready is None:
            return None
        machine, kind.ready = kind.ready, None
        self._refill(key, kind)
        if machine.lost:
            self.discard(machine)
            return None
        return machine

    def discard(self, machine: Machine) -> None:
        """End a machine that nobody was given."""
        self._background.start(self._provisioning.stop(machine), name="discard a machine", finish=True)

    async def keep(self) -> None:
        """Let go of what nobody has wanted for long; at the end, of everything."""
        try:
            while True:
                await self._clock.sleep(_LOOK_SECONDS)
                self._look()
        finally:
            self._closed = True
            for kind in self._kinds.values():
                if kind.ready is not None:
                    self.discard(kind.ready)
            self._kinds.clear()
            await asyncio.shield(self._background.__aexit__(None, None, None))

    def _look(self) -> None:
        now = self._clock.monotonic()
        for key, kind in list(self._kinds.items()):
            if kind.ready is not None and (kind.ready.lost or now - kind.wanted_at > _WANTED_SECONDS):
                self.discard(kind.ready)
                kind.ready = None
            if now - kind.wanted_at > _WANTED_SECONDS:
                del self._kinds[key]
            else:
                self._refill(key, kind)

    def _refill(self, key: str, kind: _Kind) -> None:
        rests = kind.failed_at is not None and self._clock.monotonic() - kind.failed_at < _LOOK_SECONDS
        if self._closed or kind.starting or kind.ready is not None or rests:
            return
        kind.starting = True
        self._background.start(self._make(key, kind), name="warm a machine")

    async def _make(self, key: str, kind: _Kind) -> None:
        try:
            machine = await self._prepared(kind)
            kind.failed_at = None
        except OpenComputerError as error:
            kind.failed_at = self._clock.monotonic()
            if not isinstance(error, NoCapacity):
                _log.warning("no machine could be prepared", template=kind.template, reason=error.message)
            return
        finally:
            kind.starting = False
        if self._closed or self._kinds.get(key) is not kind or kind.ready is not None:
            await self._provisioning.stop(machine)
            return
        kind.ready = machine
        with suppress(OpenComputerError):
            await machine.rest()

    async def _prepared(self, kind: _Kind) -> Machine:
        template = self._templates.get(kind.template)
        if template is None:
            raise NoCapacity("there is no such template")
        machine = await self._pool.spare(template, NOBODY)
        try:
            await kind.prepare(machine)
        except BaseException:
            await asyncio.shield(self._provisioning.stop(machine))
            raise
        return machine
