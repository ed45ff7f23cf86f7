"""Deploying a folder, and waiting for what becomes of it."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opencomputer.cli.failures import CommandError
from opencomputer.cli.output import Output
from opencomputer.sdk.durable.projects import read_project

if TYPE_CHECKING:
    from opencomputer.cli.progress import Steps
    from opencomputer.sdk.durable.agent_records import Deployment, DurableAgent
    from opencomputer.sdk.durable.client import OpenComputer
    from opencomputer.sdk.durable.projects import Project

POLL_SECONDS = 2.0


@dataclass(frozen=True)
class Deploying:
    """What is to be deployed, and how."""

    directory: str
    agent: str = ""
    activate: bool = True
    idempotency_key: str = ""
    timeout: float = 180.0
    verbose: bool = False


@dataclass(frozen=True)
class Deployed:
    """An agent and the deployment that gave it its newest revision, where there was one."""

    agent: DurableAgent
    deployment: Deployment | None


async def deploy(durable: OpenComputer, wanted: Deploying, output: Output) -> Deployed:
    """Deploy a folder to its agent, which is made if there is none."""
    project = read_project(wanted.directory)
    agent = await _agent(durable, wanted.agent or project.agent_id, project)
    if agent is None:
        agent = await durable.agents.create(
            name=project.name,
            model=project.model,
            prompt=project.prompt,
            runtime=project.runtime,
            limits=project.limits,
        )
        output.note(f"Made the agent {agent.name} ({agent.id}).")
        if not project.skills and project.schedules is None:
            # Making it has deployed everything there is.
            return Deployed(agent, None)
    if wanted.verbose:
        _describe(project, output)
    if project.runtime and project.runtime != agent.runtime:
        raise CommandError(f"{agent.name} runs on {agent.runtime}; agent.toml says {project.runtime}")
    begun = await durable.agents.deployments.create(
        agent.id,
        input=project.input(),
        activate=wanted.activate,
        idempotency_key=wanted.idempotency_key or None,
    )
    waiting = Waiting(wanted.timeout, output, verbose=wanted.verbose)
    ended = await settled(durable, agent.id, begun, waiting)
    return Deployed(await durable.agents.get(agent.id), ended)


@dataclass(frozen=True)
class Waiting:
    """How a deployment is waited for. `verbose` tells all that it prints."""

    timeout: float
    output: Output
    verbose: bool = False


async def settled(durable: OpenComputer, agent: str, deployment: Deployment, how: Waiting) -> Deployment:
    """The deployment when it has ended. Raises CommandError when that is not soon, or when it failed."""
    from opencomputer.cli.progress import Steps

    told, printed = "", _Printed(durable, agent, deployment.id)
    try:
        with Steps(how.output, f"deploying {deployment.id}") as progress:
            async with asyncio.timeout(how.timeout):
                while True:
                    if deployment.state != told and sys.stderr.isatty():
                        progress.line(f"{deployment.state} …")
                    told = deployment.state
                    if how.verbose:
                        await printed.tell(progress)
                    if deployment.ended:
                        break
                    await asyncio.sleep(POLL_SECONDS)
                    deployment = await durable.agents.deployments.get(agent, deployment.id)
    except TimeoutError as error:
        raise CommandError(
            f"{deployment.id} was still {deployment.state} after {how.timeout:g} seconds"
        ) from error
    if deployment.state in ("failed", "canceled"):
        raise CommandError(f"{deployment.id} {deployment.state}: {reason(deployment)}")
    return deployment


class _Printed:
    """What a deployment printed since the last look."""

    def __init__(self, durable: OpenComputer, agent: str, deployment: str) -> None:
        self._durable, self._agent, self._deployment = durable, agent, deployment
        self._after: str | None = None

    async def tell(self, progress: Steps) -> None:
        from opencomputer.sdk.errors import OpenComputerError

        logs = self._durable.agents.deployments.logs
        try:
            async for piece in await logs(self._agent, self._deployment, after=self._after):
                self._after = piece.cursor or self._after
                for line in piece.chunk.rstrip("\n").split("\n"):
                    progress.line(line)
        except OpenComputerError:
            return  # Telling more than is needed must not end the deployment.


def _describe(project: Project, output: Output) -> None:
    output.note(f"model {project.model}, prompt of {len(project.prompt)} characters")
    for file in project.skills:
        output.note(f"skill file {file.get('path')}")


def reason(deployment: Deployment) -> str:
    """Why it failed."""
    told = (deployment.error or {}).get("message") or deployment.error_class
    return str(told or "the server gave no reason")


async def _agent(durable: OpenComputer, named: str | None, project: Project) -> DurableAgent | None:
    try:
        return await durable.agents.named(named or project.name)
    except LookupError as error:
        if named:
            raise CommandError(str(error)) from error
        return None
