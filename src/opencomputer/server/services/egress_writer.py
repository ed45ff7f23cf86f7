"""Writes down what the network decides, without the network having to wait for it."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.egress import EgressEvent, EgressEventStore
from opencomputer.wire.ids import SandboxId

_log = structlog.get_logger(__name__)

_BATCH_SECONDS = 0.2
_BATCH = 1000
_WAITING_AT_MOST = 20_000
_PER_SANDBOX_AND_SECOND = 200
_PRUNE_SECONDS = 3600.0
_RETRY_SECONDS = 2.0
_LAST_WRITE_SECONDS = 5.0


@dataclass(frozen=True)
class Retention:
    """How long events are kept, and how many of all sandboxes together."""

    age: timedelta = timedelta(days=30)
    events: int = 1_000_000


class EgressWriter:
    """Implements EgressLog. Events are written in batches by a task that lives as long as this is entered.

    What comes faster than it could be written, or faster than one sandbox may fill the log, is not kept; the
    next event of the sandbox says how much that was.
    """

    def __init__(self, store: EgressEventStore, clock: Clock, retention: Retention) -> None:
        self._store = store
        self._clock = clock
        self._retention = retention
        self._waiting: deque[EgressEvent] = deque()
        self._lost: Counter[SandboxId] = Counter()
        self._second = -1
        self._this_second: Counter[SandboxId] = Counter()
        self._some = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> EgressWriter:
        self._task = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *error: object) -> None:
        """Write what is left, if that can be done in a short time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(_LAST_WRITE_SECONDS):
                await self._write()
        except Exception as failure:
            # At the end of the node there is nobody who could do more about it.
            _log.error(
                "the last decisions were not written down", events=len(self._waiting), exc_info=failure
            )

    def record(self, event: EgressEvent) -> None:
        sandbox = event.sandbox_id
        if len(self._waiting) >= _WAITING_AT_MOST or not self._has_allowance(sandbox):
            self._lost[sandbox] += 1
            return
        self._waiting.append(replace(event, lost=self._lost.pop(sandbox, 0)))
        self._some.set()

    @property
    def lost(self) -> int:
        """Events that were not kept and of which no later event tells yet."""
        return self._lost.total()

    def _has_allowance(self, sandbox: SandboxId) -> bool:
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second = second
            self._this_second.clear()
        self._this_second[sandbox] += 1
        return self._this_second[sandbox] <= _PER_SANDBOX_AND_SECOND

    async def _keep(self) -> None:
        prune_at = 0.0
        while True:
            if self._clock.monotonic() >= prune_at:
                prune_at = self._clock.monotonic() + _PRUNE_SECONDS
                await self._attempt(self._prune)
            await self._some.wait()
            await self._clock.sleep(_BATCH_SECONDS)
            if not await self._attempt(self._write):
                await self._clock.sleep(_RETRY_SECONDS)

    async def _attempt(self, work: Callable[[], Coroutine[None, None, None]]) -> bool:
        try:
            await work()
        except Exception as failure:
            # The top of a task: it has to go on, whatever is wrong with the store.
            _log.error("the log of decisions cannot be kept up", waiting=len(self._waiting), exc_info=failure)
            return False
        return True

    async def _write(self) -> None:
        while self._waiting:
            batch = [self._waiting[index] for index in range(min(_BATCH, len(self._waiting)))]
            await self._store.add(batch)
            for _ in batch:
                self._waiting.popleft()
        self._some.clear()

    async def _prune(self) -> None:
        before = self._clock.now() - self._retention.age
        pruned = await self._store.prune(before, keep=self._retention.events)
        if pruned:
            _log.info("old decisions removed from the log", events=pruned)
