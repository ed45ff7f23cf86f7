"""The turn engine over the real log on SQLite, with brains and boxes that do as told, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from opencomputer.server.contracts.sessions import Admission, SessionTables
from opencomputer.server.domain.sessions import events, naming
from opencomputer.server.domain.sessions.events import Event, EventFilter, Level, NewEvent
from opencomputer.server.domain.sessions.fold import Fold, after
from opencomputer.server.domain.sessions.session import (
    MANAGED,
    Boxes,
    PinnedAgent,
    Session,
    SessionLimits,
    SessionStatus,
    Turn,
)
from opencomputer.server.services.sessions.engine import EngineSettings, TurnEngine
from opencomputer.server.services.sessions.resting import Resting
from opencomputer.server.services.sessions.session_tasks import SessionTasks
from opencomputer.server.services.sessions.signals import ProcessSignals
from opencomputer.server.services.sessions.tools import Tools
from opencomputer.server.services.sessions.turn_parts import TurnParts
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.organisations import SqlOrganisationStore
from opencomputer.server.stores.sql.sessions.stores import session_tables
from opencomputer.wire.ids import AgentId, OrgId, RevisionId, SandboxId, SessionId
from tests.support import rows
from tests.support.brain_world import FakeBoxes, FakeRuntime, World
from tests.support.tapped import Dead, Tap
from tests.support.virtual_time import VirtualClock

AGENT = PinnedAgent(
    agent_id=AgentId("agt_" + "a" * 24),
    version=1,
    revision_id=RevisionId("rev_" + "b" * 24),
    revision=1,
    digest="sha256:0",
    prompt="Be brief.",
    prompt_hash="sha256:1",
    model="anthropic/claude-sonnet-5",
    runtime="scripted",
    credential=MANAGED,
)


@dataclass
class Platform:
    """What outlives every process: the database, and the boxes."""

    database: Database
    org_id: OrgId
    tables: SessionTables
    signals: ProcessSignals = field(default_factory=ProcessSignals)
    world: World = field(default_factory=World)
    clock: VirtualClock = field(default_factory=VirtualClock)

    @asynccontextmanager
    async def life(
        self, node: str = "node-1", tap: Tap | None = None, *, most_at_once: int = 8
    ) -> AsyncGenerator[Life]:
        """One life of a server's process. Left, it hands over as a node does that is stopped."""
        life = Life(self, node, tap or Tap(), most_at_once)
        life.start()
        try:
            yield life
        finally:
            await life.end()

    async def session(
        self, text: str = "hello", limits: SessionLimits | None = None, **agent: Any
    ) -> SessionId:
        """A new session, with its first message."""
        now = self.clock.now()
        session = Session(
            id=naming.new_session_id(),
            org_id=self.org_id,
            agent=replace(AGENT, **agent),
            status=SessionStatus.QUEUED,
            head=0,
            input_cursor=0,
            epoch=0,
            created_at=now,
            updated_at=now,
            limits=limits or SessionLimits(),
        )
        await self.tables.sessions.admit(Admission(session, said(text), naming.new_turn_id(), "hash"))
        await self.tables.sessions.set_boxes(
            session.id, Boxes(SandboxId(f"sb-{session.id[-8:]}"), SandboxId(f"sb-{session.id[-9:-1]}"))
        )
        return session.id

    async def steer(self, session_id: SessionId, text: str) -> None:
        await self.tables.sessions.accept(session_id, said(text), self.clock.now())

    async def get(self, session_id: SessionId) -> Session:
        found = await self.tables.sessions.find(session_id)
        assert found is not None
        return found

    async def settled(self, session_id: SessionId, *, within: float = 7200) -> Session:
        """The session when it has nothing to do any more."""
        until = self.clock.monotonic() + within
        with self.signals.on_appended(session_id) as hint:
            while self.clock.monotonic() < until:
                session = await self.get(session_id)
                if session.status not in (SessionStatus.QUEUED, SessionStatus.RUNNING):
                    return session
                await hint.wait(within)
        raise AssertionError(f"{session_id} has not come to an end: {await self.types(session_id)}")

    async def until(self, session_id: SessionId, type: str, count: int = 1) -> None:
        """Until the log has so many events of a type."""
        with self.signals.on_appended(session_id) as hint:
            while (await self.types(session_id)).count(type) < count:
                assert await hint.wait(7200), f"no {type}: {await self.types(session_id)}"

    async def log(self, session_id: SessionId) -> Sequence[Event]:
        return await self.tables.log.read(session_id, EventFilter(), after=0, limit=100_000)

    async def types(self, session_id: SessionId) -> list[str]:
        return [event.type for event in await self.log(session_id)]

    async def turns(self, session_id: SessionId) -> list[Turn]:
        return list(reversed(await self.tables.sessions.turns(session_id, limit=1000)))

    async def said(self, session_id: SessionId) -> list[str]:
        """What the user was told."""
        return [
            event.body["text"]
            for event in await self.log(session_id)
            if event.type == events.AGENT_MESSAGE and event.level is Level.USER
        ]

    async def check(self, session_id: SessionId) -> None:
        """Nothing in the log contradicts anything else."""
        session, log = await self.get(session_id), await self.log(session_id)
        assert [event.seq for event in log] == list(range(1, len(log) + 1))
        fold = Fold()
        for event in log:
            fold, _ = after(fold, event)
        assert (fold.head, fold.status) == (session.head, session.status)
        assert (fold.input_cursor, fold.usage) == (session.input_cursor, session.usage)
        for turn in await self.turns(session_id):
            own = [event.type for event in log if event.turn_id == turn.id]
            assert own.count(events.TURN_STARTED) == own.count(events.TURN_COMPLETED) == 1, own
            assert own[-1] == events.TURN_COMPLETED
            began = own.index(events.TURN_STARTED)
            assert {*own[:began]} <= {events.USER_MESSAGE, events.RUNTIME_RESTARTED}, own


class Life:
    def __init__(self, platform: Platform, node: str, tap: Tap, most_at_once: int) -> None:
        self.platform = platform
        self.tap = tap
        tables, world = platform.tables, platform.world
        self.tools = Tools(platform.clock)
        world.tools.append(self.tools)
        self.parts = TurnParts(
            sessions=tap.through(tables.sessions),
            log=tap.through(tables.log),
            turns=tap.through(tables.turns),
            boxes=tap.through(FakeBoxes(world, tap)),
            desk=self.tools,
            runtimes={"scripted": FakeRuntime()},
            clock=platform.clock,
            gateway_url="http://gateway",
        )
        tasks = SessionTasks()
        settings = EngineSettings(node, most_at_once)
        self.engine = TurnEngine(self.parts, tasks, platform.signals, settings)
        self.resting = Resting(self.parts, tasks)
        self.keeping: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self.keeping = [asyncio.create_task(each.keep()) for each in (self.engine, self.resting)]
        self.tap.on_death = self.stop

    def stop(self) -> None:
        for task in self.keeping:
            task.cancel()

    def die(self) -> None:
        """As if killed: nothing that is still done has an effect."""
        self.tap.die()

    async def end(self) -> None:
        self.stop()
        for result in await asyncio.gather(*self.keeping, return_exceptions=True):
            assert result is None or isinstance(result, asyncio.CancelledError | Dead), result


def said(text: str) -> NewEvent:
    return NewEvent(events.USER_MESSAGE, Level.USER, {"text": text}, actor=events.API)


@asynccontextmanager
async def platform(folder: Path) -> AsyncGenerator[Platform]:
    database = Database.sqlite(folder / "db")
    await database.open()
    signals = ProcessSignals()
    organisation = rows.organisation()
    still = Tap()
    try:
        await SqlOrganisationStore(database).add(organisation)
        raw = session_tables(database, signals)
        tables = SessionTables(
            sessions=still.through(raw.sessions, blocking=True),
            log=still.through(raw.log, blocking=True),
            turns=still.through(raw.turns, blocking=True),
            destinations=raw.destinations,
            deliveries=raw.deliveries,
        )
        yield Platform(database, organisation.id, tables, signals)
    finally:
        await database.close()
