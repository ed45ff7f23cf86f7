"""Agents that the server runs and that are reached by messages, channels or sessions: `HostedAgents`."""

from __future__ import annotations

from collections.abc import Mapping

from opencomputer.sdk.control_plane import Call, get
from opencomputer.sdk.durable.bodies import set_members
from opencomputer.sdk.durable.records import inner
from opencomputer.sdk.hosted.connection import agent_path
from opencomputer.sdk.hosted.instances import HostedInstances
from opencomputer.sdk.hosted.operations import HostedOperations, operation_in
from opencomputer.sdk.hosted.parts import HostedParts
from opencomputer.sdk.hosted.records import HostedAgent
from opencomputer.sdk.hosted.sessions import HostedSessions


class HostedAgents(HostedInstances, HostedSessions, HostedParts, HostedOperations):
    """Hosted agents. Close it, or use it as a context manager.

    The key defaults to `OPENCOMPUTER_API_KEY`; the address is the root of a server, by default that of
    `OPENCOMPUTER_API_URL`. They are an optional part of a server: where they are not offered,
    `NotSupportedError` is raised.
    """

    async def create(
        self,
        id: str,
        core: str | None = None,
        *,
        config: Mapping[str, object] | None = None,
        secrets: Mapping[str, str] | None = None,
        model: str | None = None,
        display_name: str | None = None,
        wait: bool = True,
    ) -> HostedAgent:
        """Make an agent: with a `core`, "hermes" or "openclaw", or raw with a `config` of its own.

        `id` is yours to choose: lower-case letters, digits and hyphens. With `wait` this returns when the
        agent is ready, half a minute later as a rule, and raises `OperationFailedError` when that fails.
        Raises `ConflictError` when there is an agent of this id.
        """
        if (core is None) == (config is None):
            raise ValueError("give either a core or a config")
        body = set_members(
            id=id, core=core, config=config, secrets=secrets, model=model, display_name=display_name
        )
        answer = await self._object(Call("POST", "/agents", json=body))
        operation = operation_in({"operation": answer.get("operation")})
        if operation is None or not wait:
            return HostedAgent.read(inner(answer, "agent"))
        await self.wait_operation(id, operation.id)
        return await self.get(id)

    async def list(self) -> list[HostedAgent]:
        """All agents, without how they do: see `get`."""
        return await self._listed("/agents", "agents", HostedAgent)

    async def get(self, id: str) -> HostedAgent:
        """An agent and how it does. Raises `NotFoundError`."""
        return HostedAgent.read(inner(await self._object(get(agent_path(id))), "agent"))

    async def update(
        self,
        id: str,
        *,
        display_name: str | None = None,
        config: Mapping[str, object] | None = None,
        model: str | None = None,
    ) -> HostedAgent:
        """Change what is given."""
        body = set_members(display_name=display_name, config=config, model=model)
        call = Call("PATCH", agent_path(id), repeatable=True, json=body)
        return HostedAgent.read(inner(await self._object(call), "agent"))

    async def delete(self, id: str) -> None:
        """Delete an agent with its sessions, instances, channels and secrets. Raises `NotFoundError`."""
        await self._deleted(agent_path(id))
