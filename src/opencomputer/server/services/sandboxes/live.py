"""The sandboxes whose machines this node holds right now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.machine import Machine
from opencomputer.server.domain.errors import Interrupted, MachineLost, OpenComputerError
from opencomputer.server.domain.sandbox import Sandbox
from opencomputer.wire.ids import OrgId, ProcessId, SandboxId


class Ending(StrEnum):
    """Why a machine is not served any more. After all but `STOPPED` the sandbox itself goes on."""

    STOPPED = "sandbox stopped"
    HANDED_ON = "the server restarts; attach again"
    HIBERNATED = "sandbox hibernated"
    RESTORED = "sandbox restored"
    REBOOTED = "sandbox rebooted"


_INTERRUPTIONS = {
    Ending.HIBERNATED: "the sandbox was put to sleep meanwhile; its processes go on when it is used again",
    Ending.RESTORED: "the sandbox went back to a checkpoint meanwhile, and its processes with it",
    Ending.REBOOTED: "the sandbox was rebooted meanwhile; its processes have ended",
}


class Activity:
    """When a sandbox was used last: by a request that began or ended, or by a message on a socket."""

    def __init__(self, clock: Clock, last: datetime) -> None:
        self._clock = clock
        self._last = last
        self._requests = 0

    def touch(self) -> None:
        self._last = self._clock.now()

    @contextmanager
    def request(self) -> Generator[None]:
        """The sandbox is in use for as long as this lasts."""
        self._requests += 1
        self.touch()
        try:
            yield
        finally:
            self._requests -= 1
            self.touch()

    def last(self) -> datetime:
        """Now, while a request is open."""
        return self._clock.now() if self._requests else self._last


@dataclass(eq=False)
class LiveSandbox:
    """A running sandbox and its machine.

    `ended` is set once this machine is no longer served; `ending` then tells why. `turn_ends` has, by agent
    session, how far the ends of turns have been told: at once, where the label on the session needs a moment
    to get there.
    """

    sandbox: Sandbox
    machine: Machine
    activity: Activity
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    ending: Ending = Ending.STOPPED
    turn_ends: dict[ProcessId, int] = field(default_factory=dict[ProcessId, int])

    @property
    def id(self) -> SandboxId:
        return self.sandbox.id

    def explain(self, error: OpenComputerError) -> OpenComputerError:
        """What to tell one whose call to the machine failed with `error`: a machine that was let go because
        its sandbox goes on without it is no lost sandbox."""
        if isinstance(error, MachineLost) and (text := _INTERRUPTIONS.get(self.ending)):
            return Interrupted(text)
        return error


class LiveSandboxes:
    """A registry; the truth is in the store."""

    def __init__(self) -> None:
        self._by_id: dict[SandboxId, LiveSandbox] = {}
        self._listeners: list[Callable[[LiveSandbox], None]] = []

    def listen(self, listener: Callable[[LiveSandbox], None]) -> None:
        """Call it with each sandbox that comes, and with each that goes, whose `ended` is set then."""
        self._listeners.append(listener)

    def _tell(self, live: LiveSandbox) -> None:
        for listener in self._listeners:
            listener(live)

    def __iter__(self) -> Iterator[LiveSandbox]:
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, live: LiveSandbox) -> None:
        self._by_id[live.id] = live
        self._tell(live)

    def get(self, org_id: OrgId, sandbox_id: SandboxId) -> LiveSandbox | None:
        live = self._by_id.get(sandbox_id)
        return live if live is not None and live.sandbox.org_id == org_id else None

    def by_address(self, address: str) -> LiveSandbox | None:
        """Whose machine has this network address."""
        return next((live for live in self._by_id.values() if live.machine.address == address), None)

    def remove(self, sandbox_id: SandboxId, ending: Ending = Ending.STOPPED) -> LiveSandbox | None:
        """Take a sandbox out and tell everybody who streams from it. None: somebody else already has."""
        live = self._by_id.pop(sandbox_id, None)
        if live is not None:
            live.ending = ending
            live.ended.set()
            self._tell(live)
        return live
