from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from opencomputer.server.contracts.sessions import SessionTables
from opencomputer.server.domain.sessions.events import Event, EventFilter, NewEvent
from opencomputer.server.domain.sessions.session import Claim, Completion, Session, YieldReason
from opencomputer.server.services.sessions.signals import ProcessSignals
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.organisations import SqlOrganisationStore
from opencomputer.server.stores.sql.sessions.stores import session_tables
from opencomputer.wire.ids import OrgId, SessionId
from tests.support import rows
from tests.support import session_rows as new


@dataclass(frozen=True)
class Node:
    """The stores as one server has them."""

    tables: SessionTables
    signals: ProcessSignals
    org_id: OrgId

    async def admit(self, **changes: Any) -> Session:
        return (await self.tables.sessions.admit(new.admission(self.org_id, **changes))).session

    async def claimed(self, session_id: SessionId, seconds: float = 1) -> Claim:
        now = new.at(seconds)
        claim = await self.tables.turns.claim(session_id, "me", now, now + timedelta(seconds=30))
        assert claim is not None
        return claim

    async def running(self, session_id: SessionId, seconds: float = 1) -> Claim:
        claim = await self.claimed(session_id, seconds)
        await self.tables.turns.begin(claim, new.at(seconds), new.at(seconds + 1800))
        return claim

    async def complete(
        self,
        claim: Claim,
        reason: YieldReason = YieldReason.COMPLETED,
        events: Sequence[NewEvent] = (),
        seconds: float = 3,
        **how: Any,
    ) -> Session:
        return await self.tables.turns.complete(claim, Completion(reason, new.at(seconds), **how), events)

    async def say(self, session_id: SessionId, text: str = "more", seconds: float = 2) -> Event:
        accepted = await self.tables.sessions.accept(session_id, new.message(text), new.at(seconds))
        return accepted.event

    async def events(self, session_id: SessionId) -> list[Event]:
        return list(await self.tables.log.read(session_id, EventFilter(), after=0, limit=100_000))

    async def types(self, session_id: SessionId) -> list[str]:
        return [event.type for event in await self.events(session_id)]

    async def session(self, session_id: SessionId) -> Session:
        found = await self.tables.sessions.get(self.org_id, session_id)
        assert found is not None
        return found


@pytest.fixture
async def node(database: Database) -> Node:
    return await new_node(database)


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncGenerator[list[Node]]:
    """Each has connections and a queue of writers of its own, as another process has."""
    async with AsyncExitStack() as stack:
        databases = [Database.sqlite(tmp_path / "shared.db") for _ in range(3)]
        for database in databases:
            stack.push_async_callback(database.close)
            await database.open()
        first = await new_node(databases[0])
        others = [
            Node(session_tables(each, ProcessSignals()), ProcessSignals(), first.org_id)
            for each in databases[1:]
        ]
        yield [first, *others]


async def new_node(database: Database) -> Node:
    organisation = rows.organisation()
    await SqlOrganisationStore(database).add(organisation)
    signals = ProcessSignals()
    return Node(session_tables(database, signals), signals, organisation.id)
