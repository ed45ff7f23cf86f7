"""Durable agents: what `oc.agents` offers."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING

from opencomputer.sdk.durable.agent_parts import Activations, Deployments, Revisions, Skills
from opencomputer.sdk.durable.agent_records import AgentVersion, Deployment, DurableAgent
from opencomputer.sdk.durable.bodies import NOT_GIVEN, NotGiven, given, set_members
from opencomputer.sdk.durable.connection import Connection, Request, reading
from opencomputer.sdk.durable.records import Page, page_of
from opencomputer.sdk.durable.repositories import DeploymentSources, RepositoriesOfAgents, RepositoryImports
from opencomputer.sdk.durable.slack import SlackOfAgents
from opencomputer.sdk.durable.starter_records import Invocation
from opencomputer.sdk.durable.starters import Hooks, Schedules, invoke
from opencomputer.sdk.errors import UnexpectedAnswerError
from opencomputer.sdk.paths import path_of

if TYPE_CHECKING:
    from opencomputer.sdk.durable.projects import Project


class Agents(RepositoriesOfAgents, SlackOfAgents):
    """The organisation's agents. Wherever an agent is named, its id is meant."""

    def __init__(self, connection: Connection) -> None:
        self.deployments = Deployments(connection)
        self.revisions = Revisions(connection)
        self.activations = Activations(connection)
        self.skills = Skills(connection)
        self.deployment_source = DeploymentSources(connection)
        self.schedules = Schedules(connection)
        self.hooks = Hooks(connection)
        self.repository = RepositoryImports(connection)
        self._connection = connection

    async def create(
        self,
        *,
        name: str,
        model: str,
        prompt: str | None = None,
        runtime: str | None = None,
        key: str | None = None,
        credential: str | None = None,
        limits: Mapping[str, int] | None = None,
        checkpoints: Mapping[str, int] | None = None,
    ) -> DurableAgent:
        """Make an agent, or get the one of this name when it is configured like this already.

        `model` is `provider/model`; `runtime` is claude by default. `key` is a key for the model, kept as a
        new credential; `credential` one that is there, or "managed". `limits` has `tokens`, `turn_seconds`
        and `turns`; `checkpoints={"keep": n}` keeps the state of the last n turns. Raises `ConflictError`
        when the agent of this name is another one.
        """
        body = set_members(
            name=name,
            model=model,
            prompt=prompt,
            runtime=runtime,
            key=key,
            credential=credential,
            limits=limits,
            checkpoints=checkpoints,
        )
        request = Request("POST", "/agents", repeatable=True, json=body)
        return DurableAgent.read(await self._connection.object(request))

    async def get(self, agent: str) -> DurableAgent:
        """One of them. Raises `NotFoundError`."""
        return DurableAgent.read(await self._connection.object(reading(path_of("agents", agent))))

    async def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[DurableAgent]:
        """Newest first."""
        answer = await self._connection.object(reading("/agents", limit=limit, cursor=cursor))
        return page_of(answer, DurableAgent.read, lambda after: self.list(limit=limit, cursor=after))

    async def update(
        self,
        agent: str,
        *,
        prompt: str | None = None,
        model: str | None = None,
        key: str | None = None,
        credential: str | NotGiven | None = NOT_GIVEN,
        limits: Mapping[str, int] | NotGiven | None = NOT_GIVEN,
        checkpoints: Mapping[str, int] | NotGiven | None = NOT_GIVEN,
    ) -> DurableAgent:
        """Change an agent for sessions to come. Prompt and model make a new revision, active at once.

        `key` replaces the value of its credential, also for sessions that run. `credential=None` goes back
        to the organisation's default, `limits=None` to the server's.
        """
        body = set_members(prompt=prompt, model=model, key=key)
        body |= given(credential=credential, limits=limits, checkpoints=checkpoints)
        request = Request("PATCH", path_of("agents", agent), json=body)
        return DurableAgent.read(await self._connection.object(request))

    async def delete(self, agent: str) -> None:
        """Delete an agent. Its sessions can still be read; its name can be used again."""
        await self._connection.send(Request("DELETE", path_of("agents", agent)))

    async def versions(
        self, agent: str, *, limit: int | None = None, cursor: str | None = None
    ) -> Page[AgentVersion]:
        """What it was after each change, newest first."""
        path = path_of("agents", agent, "versions")
        answer = await self._connection.object(reading(path, limit=limit, cursor=cursor))
        return page_of(
            answer, AgentVersion.read, lambda after: self.versions(agent, limit=limit, cursor=after)
        )

    async def deploy(
        self,
        dir: str | PathLike[str] = ".",
        *,
        agent_id: str | None = None,
        activate: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Deployment:
        """Deploy a folder with `agent.toml`, `prompt.md` and perhaps `skills/`.

        To the agent that is named, else to `[agent].id` in `agent.toml`, else to that of the name in there,
        which is made if there is none. `activate=False` only stages the revision. Raises `ProjectError` when
        the folder is not what it should be.
        """
        from opencomputer.sdk.durable.projects import read_project

        project = read_project(dir)
        named = agent_id or project.agent_id
        target = named or (await self._of_name(project.name) or await self._made_for(project)).id
        return await self.deployments.create(
            target, input=project.input(), activate=activate, idempotency_key=idempotency_key
        )

    async def invoke(
        self, agent_or_url: str, payload: object, *, idempotency_key: str | None = None
    ) -> Invocation:
        """Give an agent any JSON to work on, by its id or its `invoke_url`: a session starts with that.

        The answer comes when that is durable, and does not wait for the agent. Giving it twice with one key
        starts one session. The URL gets the API key.
        """
        is_url = agent_or_url.startswith(("http://", "https://"))
        url = agent_or_url if is_url else (await self.get(agent_or_url)).invoke_url
        if not url:
            raise UnexpectedAnswerError(f"the server gave {agent_or_url} no URL")
        return await invoke(self._connection, url, payload, idempotency_key)

    async def named(self, reference: str) -> DurableAgent:
        """The agent with this id or exactly this name. Raises `NotFoundError` or `LookupError`."""
        if reference.startswith("agt_"):
            return await self.get(reference)
        if found := await self._of_name(reference):
            return found
        raise LookupError(f"there is no agent named {reference!r}")

    async def _of_name(self, name: str) -> DurableAgent | None:
        async for each in await self.list(limit=200):
            if each.name == name:
                return each
        return None

    async def _made_for(self, project: Project) -> DurableAgent:
        return await self.create(
            name=project.name,
            model=project.model,
            prompt=project.prompt,
            runtime=project.runtime,
            limits=project.limits,
        )
