"""Changes of agents: decided on what is there, written only if that is still so, else decided anew."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from opencomputer.server.contracts.agents import AgentTables
from opencomputer.server.contracts.clock import Clock
from opencomputer.server.domain.errors import Conflict, NotFound
from opencomputer.server.domain.sessions.agent_changes import Edit, Made, NewIds, change_of
from opencomputer.server.domain.sessions.agents import Agent, Deployer, Deployment, Reason
from opencomputer.server.domain.sessions.naming import (
    new_activation_id,
    new_deployment_id,
    new_revision_id,
)
from opencomputer.wire.ids import AgentId, OrgId

_ATTEMPTS = 20


class AgentBusy(Conflict):
    """The agent is being changed by others; try again."""

    code = "agent_busy"
    retryable = True


@dataclass(frozen=True)
class Edited:
    """An agent after a change. `deployment` is what the change was, where it was one."""

    agent: Agent
    deployment: Deployment | None = None
    replayed: bool = False


Decide = Callable[[Agent], Awaitable[Edit | Edited]]
"""What to make of an agent. Edited: it has been made already."""


class Editing:
    """Finds agents and changes them. Changes of one agent happen one after the other."""

    def __init__(self, tables: AgentTables, clock: Clock) -> None:
        self._agents = tables.agents
        self._history = tables.history
        self._clock = clock

    async def require(self, org_id: OrgId, named: str) -> Agent:
        """The agent of this id, or of exactly this name. Raises NotFound."""
        agent = await self._agents.get(org_id, AgentId(named)) or await self._agents.find(org_id, named)
        if agent is None:
            raise NotFound("there is no such agent")
        return agent

    def now(self) -> datetime:
        return self._clock.now()

    def made(self, deployer: Deployer, reason: Reason) -> Made:
        ids = NewIds(new_revision_id(), new_deployment_id(), new_activation_id())
        return Made(deployer, self._clock.now(), reason, ids)

    async def change(
        self, org_id: OrgId, named: str, deployer: Deployer, reason: Reason, decide: Decide
    ) -> Edited:
        """Raises NotFound, AgentBusy, and what `decide` raises; that may be asked several times."""
        for _ in range(_ATTEMPTS):
            before = await self.require(org_id, named)
            edit = await decide(before)
            if isinstance(edit, Edited):
                return edit
            earlier = ()
            if edit.behaviour is not None:
                earlier = await self._history.related(before.id, edit.behaviour.digest)
            change = change_of(before, edit, earlier, self.made(deployer, reason))
            if change is None:
                return Edited(before)
            if await self._agents.apply(change):
                return Edited(change.agent, change.deployment)
        raise AgentBusy
