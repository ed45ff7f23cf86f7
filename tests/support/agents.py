"""Agents and credentials on a database of their own, with runtimes that do nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opencomputer.server.contracts.agents import AgentTables
from opencomputer.server.contracts.models import ModelRequest, ModelResponse
from opencomputer.server.contracts.runtimes import BrainProgram, Runtime, SkillFile, Translator
from opencomputer.server.domain.sessions.agents import Agent, Deployer
from opencomputer.server.domain.sessions.events import Json
from opencomputer.server.domain.sessions.session import PinnedAgent
from opencomputer.server.services.sessions.agents import Agents, NewAgent
from opencomputer.server.services.sessions.credentials import Credentials
from opencomputer.server.services.sessions.deployments import Deployments
from opencomputer.server.services.sessions.editing import Editing
from opencomputer.server.stores.sql.database import Database
from opencomputer.server.stores.sql.organisations import SqlOrganisationStore
from opencomputer.server.stores.sql.sessions.agent_history import SqlAgentHistory
from opencomputer.server.stores.sql.sessions.agents import SqlAgentStore
from opencomputer.server.stores.sql.sessions.credentials import SqlCredentialStore
from opencomputer.wire.ids import OrgId
from tests.support import rows
from tests.support.hand_clock import HandClock
from tests.support.memory.secrets import PlainKeyring

SOMEBODY = Deployer("api_key", "key-1")
CLAUDE = "anthropic/claude-sonnet-5"
GPT = "openai/gpt-5-codex"
KEY = "sk-ant-canary-0123456789"


@dataclass(frozen=True)
class IdleRuntime:
    """Implements Runtime, for what never starts a brain."""

    name: str
    providers: frozenset[str]
    takes_skills: bool = False

    def program(self, agent: PinnedAgent, skills: Sequence[SkillFile]) -> BrainProgram:
        return BrainProgram(())

    def endpoint(self, gateway_url: str) -> Json:
        return {}

    def system_prompt(self, agent: PinnedAgent) -> str:
        return agent.prompt

    def translator(self) -> Translator:
        raise NotImplementedError


@dataclass
class IdleModels:
    """Implements ModelProvider: offers what it is told to, and answers nothing."""

    providers: frozenset[str] = frozenset()
    available: bool = True
    name: str = "idle"

    def answer(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelResponse]:
        raise NotImplementedError

    async def close(self) -> None:
        pass


RUNTIMES: Sequence[Runtime] = (
    IdleRuntime("claude", frozenset({"anthropic"}), takes_skills=True),
    IdleRuntime("codex", frozenset({"openai"})),
    IdleRuntime("both", frozenset({"anthropic", "openai"})),
)


@dataclass(frozen=True)
class AgentWorld:
    """Everything about agents, for one organisation."""

    database: Database
    org: OrgId
    other: OrgId
    tables: AgentTables
    clock: HandClock
    keyring: PlainKeyring
    models: IdleModels
    editing: Editing
    credentials: Credentials
    agents: Agents
    deployments: Deployments

    async def create(self, name: str = "agent", model: str = CLAUDE, **fields: Any) -> Agent:
        agent, is_new = await self.agents.create(self.org, SOMEBODY, NewAgent(name, model, **fields))
        assert is_new
        return agent

    async def again(self, agent: Agent) -> Agent:
        return await self.agents.get(agent.org_id, agent.id)


@asynccontextmanager
async def agent_world(folder: Path) -> AsyncGenerator[AgentWorld]:
    database = Database.sqlite(folder / "opencomputer.db")
    await database.open()
    try:
        yield await _world(database)
    finally:
        await database.close()


async def _world(database: Database) -> AgentWorld:
    organisations = [rows.organisation(), rows.organisation()]
    for each in organisations:
        await SqlOrganisationStore(database).add(each)
    tables = AgentTables(SqlAgentStore(database), SqlAgentHistory(database), SqlCredentialStore(database))
    clock, keyring, models = HandClock(), PlainKeyring(), IdleModels()
    editing = Editing(tables, clock)
    credentials = Credentials(tables, keyring, models, clock)
    agents = Agents(tables, editing, credentials, {each.name: each for each in RUNTIMES})
    return AgentWorld(
        database=database,
        org=organisations[0].id,
        other=organisations[1].id,
        tables=tables,
        clock=clock,
        keyring=keyring,
        models=models,
        editing=editing,
        credentials=credentials,
        agents=agents,
        deployments=Deployments(tables, editing, agents, credentials),
    )
