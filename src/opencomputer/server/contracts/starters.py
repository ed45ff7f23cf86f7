"""What starts sessions of agents by itself, as it is kept: schedules with their runs, and hooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from opencomputer.server.domain.sessions.hooks import Hook, RevokedReason
from opencomputer.server.domain.sessions.schedules import Schedule, ScheduleRun
from opencomputer.wire.ids import AgentId, HookId, ScheduleId, ScheduleRunId


class ScheduleStore(Protocol):
    """The caller has checked whose agent it is."""

    async def add(self, schedule: Schedule, *, most: int) -> None:
        """Raises NotFound when its agent is gone, NameTaken, and LimitReached beyond `most`."""
        ...

    async def list(self, agent_id: AgentId) -> Sequence[Schedule]:
        """Oldest first; none that was deleted."""
        ...

    async def get(self, agent_id: AgentId, schedule_id: ScheduleId) -> Schedule | None:
        """Also when it was deleted."""
        ...

    async def change(
        self, agent_id: AgentId, schedule_id: ScheduleId, decide: Callable[[Schedule], Schedule]
    ) -> Schedule | None:
        """Decide on it as it is now, with nobody else changing it. None: there is none, or not any more."""
        ...

    async def runs(
        self, schedule_id: ScheduleId, *, limit: int, before: ScheduleRun | None = None
    ) -> Sequence[ScheduleRun]:
        """Those that are over, newest first."""
        ...

    async def run(self, schedule_id: ScheduleId, run_id: ScheduleRunId) -> ScheduleRun | None: ...


@dataclass(frozen=True)
class Hold:
    """Who works on a run, and until when nobody else does."""

    owner: str
    until: datetime


@dataclass(frozen=True)
class Firing:
    """A run that is to be enacted, and its schedule."""

    schedule: Schedule
    run: ScheduleRun


class FiringStore(Protocol):
    """Runs are written before anything happens: what was begun is done by somebody, and settled once."""

    async def claim(self, now: datetime, hold: Hold, *, limit: int) -> Sequence[Firing]:
        """Begin a run of each due schedule of an agent that is there, and take over those of the dead."""
        ...

    async def begin(self, run: ScheduleRun, hold: Hold) -> None:
        """Write down a run by hand."""
        ...

    async def settle(self, run: ScheduleRun, at: datetime, *, keep: int) -> ScheduleRun:
        """Write down how it ended, unless somebody has; gives what is written. Only `keep` are kept."""
        ...

    async def disown(self, prefix: str, owner: str) -> None:
        """Whoever has a name with this prefix, other than `owner`, is dead."""
        ...

    async def next_due(self) -> datetime | None:
        """When there is something to claim; None when there is nothing to wait for."""
        ...


class HookStore(Protocol):
    async def add(self, hook: Hook, *, most: int) -> None:
        """Raises NotFound when its agent is gone, NameTaken, and LimitReached beyond `most` not revoked."""
        ...

    async def list(
        self, agent_id: AgentId, *, revoked: bool, limit: int, before: Hook | None = None
    ) -> Sequence[Hook]:
        """Newest first; with `revoked`, also those."""
        ...

    async def get(self, agent_id: AgentId, hook_id: HookId) -> Hook | None: ...

    async def of_token(self, token_hash: str) -> Hook | None:
        """Whatever became of it, unless its agent is gone."""
        ...

    async def revoke(self, hook_id: HookId, reason: RevokedReason, at: datetime) -> bool:
        """False: it was revoked before."""
        ...


@dataclass(frozen=True)
class StarterTables:
    schedules: ScheduleStore
    firings: FiringStore
    hooks: HookStore
