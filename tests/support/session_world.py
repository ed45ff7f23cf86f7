"""/v3 over real stores, with agents that a test makes up, and with nobody who works on turns."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from opencomputer.server.contracts.runtimes import SkillFile
from opencomputer.server.contracts.sessions import SessionTables
from opencomputer.server.domain.errors import NotFound, OpenComputerError
from opencomputer.server.domain.sessions.errors import DestinationForbidden
from opencomputer.server.domain.sessions.session import MANAGED, PinnedAgent, SessionLimits
from opencomputer.server.http.access_log import AccessLog
from opencomputer.server.http.session_api.app import create_session_api
from opencomputer.server.services.access import Access
from opencomputer.server.services.facade import Services
from opencomputer.server.services.sessions.client_tokens import ClientTokens
from opencomputer.server.services.sessions.facade import DurableServices
from opencomputer.server.services.sessions.messages import Messages
from opencomputer.server.services.sessions.sessions import DurableSessions
from opencomputer.server.services.sessions.signals import ProcessSignals
from opencomputer.server.stores.sql.api_keys import SqlApiKeyStore
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.organisations import SqlOrganisationStore
from opencomputer.server.stores.sql.sessions.stores import session_tables
from opencomputer.wire.ids import AgentId, OrgId, RevisionId
from tests.support.hand_clock import HandClock

Bundle = TypeVar("Bundle")
AGENT = "agt_" + "0a" * 12


@dataclass
class MadeUpAgents:
    """Implements AgentDirectory. `failure` is what every pin raises."""

    limits: SessionLimits = field(default_factory=SessionLimits)
    failure: OpenComputerError | None = None
    deleted: bool = False
    pins: list[tuple[int | str | None, str | None]] = field(default_factory=list[Any])

    def reset(self) -> None:
        self.limits, self.failure, self.deleted = SessionLimits(), None, False
        self.pins.clear()

    async def pin(
        self, org_id: OrgId, agent: str, *, revision: int | str | None = None, model: str | None = None
    ) -> PinnedAgent:
        if agent != AGENT:
            raise NotFound("there is no such agent")
        if self.failure is not None:
            raise self.failure
        self.pins.append((revision, model))
        return PinnedAgent(
            agent_id=AgentId(AGENT),
            version=2,
            revision_id=RevisionId("rev_" + "0b" * 12),
            revision=revision if isinstance(revision, int) else 1,
            digest="sha256:d",
            prompt="Be kind.",
            prompt_hash="sha256:p",
            model=model or "anthropic/claude",
            runtime="claude",
            credential=MANAGED,
            limits=self.limits,
        )

    async def skills(self, org_id: OrgId, agent: PinnedAgent) -> Sequence[SkillFile]:
        return ()

    async def is_deleted(self, org_id: OrgId, agent: PinnedAgent) -> bool:
        return self.deleted


@dataclass
class SessionWorld:
    """What a test has of a server for itself. `client` calls as its organisation, `other` as another one."""

    app: ASGIApp
    tables: SessionTables
    agents: MadeUpAgents
    clock: HandClock
    client: httpx.AsyncClient
    other: httpx.AsyncClient
    org_id: OrgId

    def bearing(self, credential: str | None) -> httpx.AsyncClient:
        return _client(self.app, credential)

    async def create(self, **fields: Any) -> dict[str, Any]:
        """The whole answer for a new session."""
        answer = await self.client.post("/sessions", json={"agent": AGENT, "input": "hello", **fields})
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def new(self, **fields: Any) -> str:
        """The id of a new session."""
        return (await self.create(**fields))["session"]["id"]


@dataclass
class SessionServer:
    """One server on one database, for many tests: each has organisations of its own."""

    app: ASGIApp
    access: Access
    tables: SessionTables
    agents: MadeUpAgents
    clock: HandClock

    @asynccontextmanager
    async def world(self) -> AsyncGenerator[SessionWorld]:
        self.agents.reset()
        keys = [await self.access.create_organisation(name) for name in ("first", "other")]
        first, other = (key.secret for key in keys)
        async with _client(self.app, first) as client, _client(self.app, other) as stranger:
            org_id = keys[0].record.org_id
            yield SessionWorld(self.app, self.tables, self.agents, self.clock, client, stranger, org_id)


def _client(app: ASGIApp, credential: str | None) -> httpx.AsyncClient:
    headers = {} if credential is None else {"Authorization": f"Bearer {credential}"}
    # A failure is to be seen as clients see it.
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://oc/v3", headers=headers)


async def _allow(url: str) -> None:
    if "10.0.0.1" in url:
        raise DestinationForbidden


@asynccontextmanager
async def session_server(folder: Path) -> AsyncGenerator[SessionServer]:
    database = Database.sqlite(folder / "server.db")
    await database.open()
    try:
        clock, agents = HandClock(), MadeUpAgents()
        tables = session_tables(database, ProcessSignals())
        access = Access(SqlOrganisationStore(database), SqlApiKeyStore(database), clock, b"t" * 32)
        durable = partial(
            DurableServices,
            client_tokens=ClientTokens(b"c" * 32, clock),
            sessions=DurableSessions(tables, agents, clock, _allow),
            messages=Messages(tables.sessions, agents, clock),
        )
        services = partial(Services, access=access, durable=durable, clock=clock)
        app = AccessLog(create_session_api(services), CollectorRegistry())
        yield SessionServer(app, access, tables, agents, clock)
    finally:
        await database.close()


def partial(kind: type[Bundle], **parts: object) -> Bundle:
    """A frozen bundle with only these parts: nothing in a test asks for the others."""
    made = object.__new__(kind)
    for name, part in parts.items():
        object.__setattr__(made, name, part)
    return made
