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
        if not project.skills:
            # Making it has deployed everything there is.
            return Deployed(agent, None)
    if project.runtime and project.runtime != agent.runtime:
        raise CommandError(f"{agent.name} runs on {agent.runtime}; agent.toml says {project.runtime}")
    begun = await durable.agents.deployments.create(
        agent.id,
        input=project.input(),
        activate=wanted.activate,
        idempotency_key=wanted.idempotency_key or None,
    )
    ended = await settled(durable, agent.id, begun, wanted.timeout)
    return Deployed(await durable.agents.get(agent.id), ended)


async def settled(durable: OpenComputer, agent: str, deployment: Deployment, timeout: float) -> Deployment:
    """The deployment when it has ended. Raises CommandError when that is not soon, or when it failed."""
    try:
        async with asyncio.timeout(timeout):
            while not deployment.ended:
                if sys.stderr.isatty():
                    print(f"{deployment.state} …", file=sys.stderr, flush=True)
                await asyncio.sleep(POLL_SECONDS)
                deployment = await durable.agents.deployments.get(agent, deployment.id)
    except TimeoutError as error:
        raise CommandError(
            f"{deployment.id} was still {deployment.state} after {timeout:g} seconds"
        ) from error
    if deployment.state in ("failed", "canceled"):
        raise CommandError(f"{deployment.id} {deployment.state}: {reason(deployment)}")
    return deployment


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
