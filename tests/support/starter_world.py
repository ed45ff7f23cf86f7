"""What starts sessions by itself, over real stores, at times that a test sets by hand."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from opencomputer.server.contracts.sessions import SessionTables
from opencomputer.server.contracts.starters import FiringStore, StarterTables
from opencomputer.server.domain.sessions.agents import Agent
from opencomputer.server.domain.sessions.events import Event, EventFilter
from opencomputer.server.domain.sessions.schedules import Overlap, Schedule, ScheduleRun, WantedSchedule
from opencomputer.server.domain.sessions.session import Session, SessionFilter
from opencomputer.server.services.sessions.hooks import Hooks
from opencomputer.server.services.sessions.leaked_hooks import LeakedHooks
from opencomputer.server.services.sessions.scheduler import Scheduler
from opencomputer.server.services.sessions.schedules import Schedules
from opencomputer.server.services.sessions.sessions import DurableSessions
from opencomputer.server.services.sessions.signals import ProcessSignals
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.sessions.stores import session_tables, starter_tables
from tests.support.agents import AgentWorld
from tests.support.hand_clock import HandClock


async def _allow(url: str) -> None:
    del url


@dataclass
class StarterWorld:
    """One node's part that starts sessions. `another` is a node on the same database, or its next life."""

    agents: AgentWorld
    database: Database
    file: Path
    name: str = "here"
    tables: SessionTables = field(init=False)
    starters: StarterTables = field(init=False)
    made: list[Agent] = field(default_factory=list[Agent])

    def __post_init__(self) -> None:
        self.tables = session_tables(self.database, ProcessSignals())
        self.starters = starter_tables(self.database)
        self.sessions = DurableSessions(self.tables, self.agents.agents, self.clock, _allow)
        self.scheduler = self.scheduler_on(self.starters.firings)
        self.schedules = Schedules(self.starters.schedules, self.scheduler, self.clock)
        self.hooks = Hooks(self.starters.hooks, self.sessions, self.clock)
        self.leaked = LeakedHooks(self.starters.hooks, self.clock)

    @property
    def clock(self) -> HandClock:
        return self.agents.clock

    def scheduler_on(self, store: FiringStore) -> Scheduler:
        return Scheduler(store, self.sessions, self.tables.sessions, self.clock, self.name)

    def another(self, name: str = "there", database: Database | None = None) -> StarterWorld:
        return StarterWorld(self.agents, database or self.database, self.file, name)

    async def agent(self) -> Agent:
        self.agents.models.providers = frozenset({"anthropic"})
        made = await self.agents.create(f"agent {secrets.token_hex(4)}")
        self.made.append(made)
        return made

    async def leave(self) -> None:
        """Nothing that was made here fires any more."""
        for each in self.made:
            await self.agents.tables.agents.delete(each.org_id, each.id, self.clock.now())

    async def schedule(
        self, agent: Agent, cron: str = "0 * * * *", overlap: Overlap = Overlap.ALLOW, name: str = "hourly"
    ) -> Schedule:
        return await self.schedules.create(agent, WantedSchedule(name, cron, None, "Go.", overlap))

    async def at(self, moment: datetime) -> None:
        """Let it be that time, and fire what is due."""
        self.set(moment)
        await self.scheduler.fire_due()

    async def after(self, **time: float) -> None:
        await self.at(self.clock.now() + timedelta(**time))

    def set(self, moment: datetime) -> None:
        self.clock.advance((moment - self.clock.now()).total_seconds())

    async def runs(self, schedule: Schedule) -> Sequence[ScheduleRun]:
        return await self.schedules.runs(schedule.id, 100, None)

    async def started(self, agent: Agent) -> Sequence[Session]:
        """Every session of it, newest first."""
        return await self.sessions.list(agent.org_id, SessionFilter(agent_id=agent.id), 100, None)

    async def first_event(self, session: Session) -> Event:
        [event] = await self.tables.log.read(session.id, EventFilter(), after=0, limit=9)
        return event
