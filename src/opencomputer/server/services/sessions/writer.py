"""One way into the log for everything a running turn has to say, in order (agent-sessions.md section 4.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType

import structlog

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.sessions import Fenced, TurnStore
from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.domain.sessions.events import Event, NewEvent
from opencomputer.server.services.sessions.lease import Lease

_log = structlog.get_logger(__name__)

_BATCH = 200
_WAITING = 1000
_RETRY_SECONDS = 0.5


@dataclass(frozen=True)
class _Entry:
    events: Sequence[NewEvent]
    written: asyncio.Future[Sequence[Event]]


class TurnLog:
    """Implements TurnWriter. What is there together is written together; callers may wait for it or not.

    Events without a key get the next of `rt:<turn>:<n>`, beginning after the highest of earlier attempts.
    While the database cannot be reached, writing waits for as long as the claim is held.
    """

    def __init__(self, turns: TurnStore, lease: Lease, clock: Clock) -> None:
        self._turns = turns
        self._lease = lease
        self._clock = clock
        self._entries: asyncio.Queue[_Entry] = asyncio.Queue(_WAITING)
        self._failed: BaseException | None = None
        self._next = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> TurnLog:
        prefix = f"rt:{self._lease.claim.turn_id}:"
        numbers = [key.removeprefix(prefix) for key in await self._turns.keys(self._lease.claim, prefix)]
        self._next = 1 + max((int(number) for number in numbers if number.isdecimal()), default=0)
        self._task = asyncio.create_task(self._write_all(), name=f"log of {self._lease.claim.turn_id}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what is there, as long as the claim is held."""
        if self._task is None:
            return
        with suppress(Exception):
            await self.flush()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def write(self, *events: NewEvent) -> Sequence[str]:
        entry = await self._put(events)
        return [event.id for event in await asyncio.shield(entry.written)]

    async def put(self, *events: NewEvent) -> None:
        """Write before everything that is written or flushed later, without waiting for it."""
        if events:
            await self._put(events)

    async def flush(self) -> None:
        """Wait until everything is committed."""
        await asyncio.shield((await self._put(())).written)

    async def known(self, prefix: str) -> frozenset[str]:
        await self.flush()
        return frozenset(await self._turns.keys(self._lease.claim, prefix))

    async def _put(self, events: Sequence[NewEvent]) -> _Entry:
        if self._failed is not None:
            raise self._failed
        written: asyncio.Future[Sequence[Event]] = asyncio.get_running_loop().create_future()
        # Not everybody waits for it.
        written.add_done_callback(_seen)
        entry = _Entry(self._with_keys(events), written)
        await self._entries.put(entry)
        if self._failed is not None and not written.done():
            written.set_exception(self._failed)
        return entry

    def _with_keys(self, events: Sequence[NewEvent]) -> Sequence[NewEvent]:
        keyed = list[NewEvent]()
        for event in events:
            if event.key is None:
                event = replace(event, key=f"rt:{self._lease.claim.turn_id}:{self._next}")
                self._next += 1
            keyed.append(event)
        return keyed

    async def _write_all(self) -> None:
        entries = list[_Entry]()
        try:
            while True:
                entries = [await self._entries.get()]
                while not self._entries.empty() and sum(len(each.events) for each in entries) < _BATCH:
                    entries.append(self._entries.get_nowait())
                await self._write(entries)
        except BaseException as error:
            self._failed = error if isinstance(error, Exception) else Fenced()
            while not self._entries.empty():
                entries.append(self._entries.get_nowait())
            for entry in entries:
                if not entry.written.done():
                    entry.written.set_exception(self._failed)
            if not isinstance(error, Exception):
                raise

    async def _write(self, entries: Sequence[_Entry]) -> None:
        events = [event for entry in entries for event in entry.events]
        ids = iter(await self._appended(events) if events else ())
        for entry in entries:
            # As many came back as went in, in their order.
            entry.written.set_result([next(ids) for _ in entry.events])

    async def _appended(self, events: Sequence[NewEvent]) -> Sequence[Event]:
        while True:
            try:
                return await self._turns.append(self._lease.claim, events, self._clock.now())
            except OpenComputerError:
                raise
            except Exception as error:
                if not self._lease.held:
                    raise Fenced from error
                _log.exception("events were not written; tried again", turn=self._lease.claim.turn_id)
            await self._clock.sleep(_RETRY_SECONDS)


def _seen(written: asyncio.Future[Sequence[Event]]) -> None:
    if not written.cancelled():
        written.exception()
