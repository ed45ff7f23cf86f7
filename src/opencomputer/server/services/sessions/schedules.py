"""The use cases of schedules (agent-sessions.md section 3.19)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.starters import ScheduleStore
from opencomputer.server.domain.errors import NotFound
from opencomputer.server.domain.sessions.agents import Agent
from opencomputer.server.domain.sessions.naming import new_schedule_id
from opencomputer.server.domain.sessions.schedules import (
    MOST_SCHEDULES,
    Schedule,
    ScheduleChanges,
    ScheduleRun,
    WantedSchedule,
    changed,
    check_wanted,
    new_schedule,
)
from opencomputer.server.services.sessions.scheduler import Scheduler
from opencomputer.wire.ids import ScheduleId, ScheduleRunId


class Schedules:
    """Schedules of agents that the caller has been shown to own."""

    def __init__(self, store: ScheduleStore, scheduler: Scheduler, clock: Clock) -> None:
        self._store = store
        self._scheduler = scheduler
        self._clock = clock

    async def create(self, agent: Agent, wanted: WantedSchedule) -> Schedule:
        """Raises InvalidInput, InvalidCron, PayloadTooLarge, NameTaken, LimitReached."""
        now = self._clock.now()
        made = new_schedule(new_schedule_id(), (agent.org_id, agent.id), check_wanted(wanted, now), now)
        await self._store.add(made, most=MOST_SCHEDULES)
        self._scheduler.look()
        return made

    async def list(self, agent: Agent) -> Sequence[Schedule]:
        """Oldest first."""
        return await self._store.list(agent.id)

    async def get(self, agent: Agent, schedule_id: str) -> Schedule:
        """Raises NotFound."""
        found = await self._store.get(agent.id, ScheduleId(schedule_id))
        if found is None or found.deleted_at is not None:
            raise _no_schedule()
        return found

    async def update(self, agent: Agent, schedule_id: str, changes: ScheduleChanges) -> Schedule:
        """Raises NotFound, InvalidInput, InvalidCron, PayloadTooLarge."""
        now = self._clock.now()
        return await self._change(agent, schedule_id, lambda present: changed(present, changes, now))

    async def delete(self, agent: Agent, schedule_id: str) -> None:
        """It starts nothing any more; its runs are kept. Raises NotFound."""
        now = self._clock.now()
        await self._change(
            agent, schedule_id, lambda present: replace(present, deleted_at=now, updated_at=now)
        )

    async def fire(self, agent: Agent, schedule_id: str) -> ScheduleRun:
        """Start its session now, in whatever state it is; the run says what came of it. Raises NotFound."""
        return await self._scheduler.fire(await self.get(agent, schedule_id))

    async def of_runs(self, agent: Agent, schedule_id: str) -> ScheduleId:
        """The schedule, even if it was deleted: whose runs can be listed. Raises NotFound."""
        found = await self._store.get(agent.id, ScheduleId(schedule_id))
        if found is None:
            raise _no_schedule()
        return found.id

    async def runs(
        self, schedule_id: ScheduleId, limit: int, before: ScheduleRun | None
    ) -> Sequence[ScheduleRun]:
        """Newest first; with `before`, those after it in that order."""
        return await self._store.runs(schedule_id, limit=limit, before=before)

    async def run(self, schedule_id: ScheduleId, run_id: str) -> ScheduleRun | None:
        return await self._store.run(schedule_id, ScheduleRunId(run_id))

    async def _change(
        self, agent: Agent, schedule_id: str, decide: Callable[[Schedule], Schedule]
    ) -> Schedule:
        after = await self._store.change(agent.id, ScheduleId(schedule_id), decide)
        if after is None:
            raise _no_schedule()
        self._scheduler.look()
        return after


def _no_schedule() -> NotFound:
    return NotFound("the agent has no such schedule")
