# Generated from src/opencomputer/sdk/durable/agents.py by scripts/generate_blocking.py
"""The blocking twins of `opencomputer.sdk.durable.agents`; see there."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

from opencomputer.blocking.durable.agent_parts import Activations, Deployments, Revisions, Skills
from opencomputer.blocking.durable.repositories import (
    DeploymentSources,
    RepositoriesOfAgents,
    RepositoryImports,
)
from opencomputer.blocking.durable.slack import SlackOfAgents
from opencomputer.blocking.durable.starters import Hooks, Schedules
from opencomputer.blocking.support.page import Page
from opencomputer.blocking.support.twin import view
from opencomputer.sdk.durable.bodies import NOT_GIVEN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from opencomputer.sdk.durable import agents as sdk
    from opencomputer.sdk.durable.agent_records import AgentVersion, Deployment, DurableAgent
    from opencomputer.sdk.durable.bodies import NotGiven
    from opencomputer.sdk.durable.starter_records import Invocation


class Agents(RepositoriesOfAgents, SlackOfAgents):
    """The organisation's agents. Wherever an agent is named, its id is meant."""

    @cached_property
    def deployments(self) -> Deployments:
        return view(Deployments, self._original.deployments)

    @cached_property
    def revisions(self) -> Revisions:
        return view(Revisions, self._original.revisions)

    @cached_property
    def activations(self) -> Activations:
        return view(Activations, self._original.activations)

    @cached_property
    def skills(self) -> Skills:
        return view(Skills, self._original.skills)

    @cached_property
    def deployment_source(self) -> DeploymentSources:
        return view(DeploymentSources, self._original.deployment_source)

    @cached_property
    def schedules(self) -> Schedules:
        return view(Schedules, self._original.schedules)

    @cached_property
    def hooks(self) -> Hooks:
        return view(Hooks, self._original.hooks)

    @cached_property
    def repository(self) -> RepositoryImports:
        return view(RepositoryImports, self._original.repository)

    def create(
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
        return self._run(
            self._original.create(
                name=name,
                model=model,
                prompt=prompt,
                runtime=runtime,
                key=key,
                credential=credential,
                limits=limits,
                checkpoints=checkpoints,
            )
        )

    def get(self, agent: str) -> DurableAgent:
        """One of them. Raises `NotFoundError`."""
        return self._run(self._original.get(agent))

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[DurableAgent]:
        """Newest first."""
        return Page(self._run(self._original.list(limit=limit, cursor=cursor)))

    def update(
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
        return self._run(
            self._original.update(
                agent,
                prompt=prompt,
                model=model,
                key=key,
                credential=credential,
                limits=limits,
                checkpoints=checkpoints,
            )
        )

    def delete(self, agent: str) -> None:
        """Delete an agent. Its sessions can still be read; its name can be used again."""
        self._run(self._original.delete(agent))

    def versions(
        self, agent: str, *, limit: int | None = None, cursor: str | None = None
    ) -> Page[AgentVersion]:
        """What it was after each change, newest first."""
        return Page(self._run(self._original.versions(agent, limit=limit, cursor=cursor)))

    def deploy(
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
        return self._run(
            self._original.deploy(dir, agent_id=agent_id, activate=activate, idempotency_key=idempotency_key)
        )

    def invoke(self, agent_or_url: str, payload: object, *, idempotency_key: str | None = None) -> Invocation:
        """Give an agent any JSON to work on, by its id or its `invoke_url`: a session starts with that.

        The answer comes when that is durable, and does not wait for the agent. Giving it twice with one key
        starts one session. The URL gets the API key.
        """
        return self._run(self._original.invoke(agent_or_url, payload, idempotency_key=idempotency_key))

    def named(self, reference: str) -> DurableAgent:
        """The agent with this id or exactly this name. Raises `NotFoundError` or `LookupError`."""
        return self._run(self._original.named(reference))

    @property
    def _original(self) -> sdk.Agents:
        return cast("sdk.Agents", self._wrapped)
