"""`oc agent link` and `unlink`: a repository whose pushes are deployed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from opencomputer.cli import durable_targets as targets
from opencomputer.cli.commands.durable_agent import AGENT
from opencomputer.cli.options import YES, named, optional
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.sdk.durable.agent_records import Deployment
    from opencomputer.sdk.durable.client import OpenComputer
    from opencomputer.sdk.durable.repository_records import LinkedSource


def link(
    context: typer.Context,
    repository: str = named("OWNER/REPO", "The repository."),
    agent: str = AGENT,
    path: str = optional("--path", "The folder in it; its root by default."),
    branch: str = typer.Option("main", "--branch", help="What is pushed there is deployed."),
    no_deploy: bool = typer.Option(False, "--no-deploy", help="Only with the next push."),
    wait: bool = typer.Option(False, "--wait", help="Until the first deployment has ended."),
    timeout: float = typer.Option(180.0, "--timeout", min=1.0, help="Seconds to wait."),
) -> None:
    """Link an agent to a repository: what is pushed to its branch is deployed."""
    session = session_of(context)
    reference = targets.agent_reference(agent)

    async def work(durable: OpenComputer) -> tuple[LinkedSource, Deployment | None]:
        from opencomputer.cli.deploying import Waiting, settled

        owner = await targets.agent_id_of(durable, reference)
        made = await durable.agents.deployment_source.link(
            owner, repository, path, production_ref=branch, deploy_now=not no_deploy
        )
        if not (wait and made.deployment_id):
            return made, None
        begun = await durable.agents.deployments.get(owner, made.deployment_id)
        return made, await settled(durable, owner, begun, Waiting(timeout, session.output))

    made, ended = session.run_durable(work)
    begun = f", {made.deployment_id} {ended.state if ended else 'has begun'}" if made.deployment_id else ""
    session.output.success(made.raw, f"linked to {repository} ({branch}){begun}")
    if made.deploy_error:
        session.output.warn(f"the first deployment could not start: {made.deploy_error.get('message')}")


def unlink(context: typer.Context, agent: str = AGENT, yes: bool = YES) -> None:
    """Take the link to its repository from an agent. Its revisions stay."""
    session = session_of(context)
    reference = targets.agent_reference(agent)
    targets.confirm(f"Unlink {reference} from its repository?", session.output, yes=yes)

    async def work(durable: OpenComputer) -> None:
        owner = await targets.agent_id_of(durable, reference)
        await durable.agents.deployment_source.unlink(owner)

    session.run_durable(work)
    session.output.success({"agent": reference, "unlinked": True}, f"{reference} is not linked any more")


def add_commands(group: typer.Typer) -> None:
    """Add these to the group."""
    group.command("link")(link)
    group.command("unlink")(unlink)
