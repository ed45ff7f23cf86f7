"""`oc agent …` for what an agent consists of: deployments and revisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from opencomputer.cli import durable_targets as targets
from opencomputer.cli import text
from opencomputer.cli.commands.durable_agent import AGENT, REFERENCE
from opencomputer.cli.session import Session, session_of

if TYPE_CHECKING:
    from opencomputer.cli.deploying import Deployed
    from opencomputer.sdk.durable.agent_records import Activation, Deployment, DeploymentLog, Revision
    from opencomputer.sdk.durable.client import OpenComputer

_REVISION_HEADERS = ("REV", "ACTIVE", "DIGEST", "CREATED")
_DEPLOYMENT_HEADERS = ("ID", "INPUT", "STATE", "RESULT", "REF", "SHA", "CREATED")
_ACTIVATION_HEADERS = ("ID", "FROM", "TO", "REASON", "CREATED")
_DIGEST_COLUMNS = 19


def deploy(
    context: typer.Context,
    directory: str = typer.Argument(".", metavar="[DIRECTORY]", help="With an agent.toml and a prompt.md."),
    agent: str = AGENT,
    no_activate: bool = typer.Option(False, "--no-activate", help="Only stage the revision."),
    idempotency_key: str = typer.Option(
        "", "--idempotency-key", help="Once for this key.", show_default=False
    ),
    timeout: float = typer.Option(180.0, "--timeout", min=1.0, help="Seconds to wait."),
    verbose: bool = typer.Option(False, "--verbose", help="Show what is deployed, and all that it prints."),
) -> None:
    """Deploy a folder: its prompt, its model and its skills become a revision."""
    from opencomputer.cli.deploying import Deploying, deploy

    session = session_of(context)
    wanted = Deploying(directory, agent, not no_activate, idempotency_key, timeout, verbose)
    deployed = session.run_durable(lambda durable: deploy(durable, wanted, session.output))
    value = deployed.deployment.raw if deployed.deployment is not None else deployed.agent.raw
    session.output.success(value, _summary(deployed))
    if not (session.output.json or session.output.quiet):
        session.output.line(f"Agent URL: {text.harmless(deployed.agent.invoke_url or '-')}")
        session.output.note(f"Try: oc session create --agent {deployed.agent.id} --input '…' --follow")


def revisions(context: typer.Context, reference: str = REFERENCE, agent: str = AGENT) -> None:
    """List an agent's revisions."""
    session = session_of(context)
    named = targets.agent_reference(reference, agent)

    async def work(durable: OpenComputer) -> list[Revision]:
        found = await targets.agent_of(durable, named)
        return list(await durable.agents.revisions.list(found.id))

    found = session.run_durable(work)
    rows = [
        [each.number, "*" if each.active else "", each.digest[:_DIGEST_COLUMNS], each.created_at]
        for each in found
    ]
    session.output.table([each.raw for each in found], _REVISION_HEADERS, rows, "No revisions.")


def revision(
    context: typer.Context,
    revision: str = typer.Argument(..., help="Its number or id.", show_default=False),
    agent: str = AGENT,
) -> None:
    """Show a revision: its prompt, its model and the files of its skills."""
    session = session_of(context)
    named = targets.agent_reference(agent)

    async def work(durable: OpenComputer) -> Revision:
        owner = await targets.agent_of(durable, named)
        return await durable.agents.revisions.get(owner.id, revision)

    found = session.run_durable(work)
    pairs: list[tuple[str, object]] = [
        *(("ID", found.id), ("Number", found.number), ("Active", "yes" if found.active else "no")),
        *(("Model", found.model or "-"), ("Digest", found.digest), ("Created", found.created_at)),
        *(("Prompt", found.prompt or "-"), ("Files", ", ".join(each.path for each in found.files) or "-")),
    ]
    session.output.result(found.raw, text.details(pairs))


def rollback(
    context: typer.Context,
    revision: str = typer.Argument(..., help="Its number or id.", show_default=False),
    agent: str = AGENT,
) -> None:
    """Let new sessions start with an earlier revision, or with one that was only staged."""
    session = session_of(context)
    named = targets.agent_reference(agent)

    async def work(durable: OpenComputer) -> str:
        found = await targets.agent_of(durable, named)
        return await durable.agents.revisions.activate(found.id, revision)

    active = session.run_durable(work)
    session.output.success({"active_revision_id": active}, f"revision {revision} ({active}) is active")


def activations(context: typer.Context, reference: str = REFERENCE, agent: str = AGENT) -> None:
    """List when which revision became the active one."""
    session = session_of(context)
    named = targets.agent_reference(reference, agent)

    async def work(durable: OpenComputer) -> list[Activation]:
        found = await targets.agent_of(durable, named)
        return list(await durable.agents.activations.list(found.id))

    found = session.run_durable(work)
    rows = [
        [each.id, _number(each.raw.get("from")), _number(each.to), each.reason, each.created_at]
        for each in found
    ]
    session.output.table([each.raw for each in found], _ACTIVATION_HEADERS, rows, "No activations.")


def deployments(context: typer.Context, reference: str = REFERENCE, agent: str = AGENT) -> None:
    """List an agent's deployments, newest first."""
    session = session_of(context)
    named = targets.agent_reference(reference, agent)

    async def work(durable: OpenComputer) -> list[Deployment]:
        found = await targets.agent_of(durable, named)
        return list(await durable.agents.deployments.list(found.id))

    found = session.run_durable(work)
    rows = [
        [
            each.id,
            each.input_type,
            each.state,
            each.result or "-",
            each.ref or "-",
            each.sha or "-",
            each.created_at,
        ]
        for each in found
    ]
    session.output.table([each.raw for each in found], _DEPLOYMENT_HEADERS, rows, "No deployments.")


def deployment(
    context: typer.Context,
    deployment_id: str = typer.Argument(..., metavar="DEPLOYMENT", help="Its id.", show_default=False),
    agent: str = AGENT,
    wait: bool = typer.Option(False, "--wait", help="Until it has ended; fails when it did."),
    timeout: float = typer.Option(180.0, "--timeout", min=1.0, help="Seconds to wait."),
    logs: bool = typer.Option(False, "--logs", help="What it printed instead."),
) -> None:
    """Show a deployment."""
    from opencomputer.cli.deploying import Waiting, reason, settled

    session = session_of(context)
    named = targets.agent_reference(agent)
    if logs:
        _show_logs(session, named, deployment_id)
        return

    async def work(durable: OpenComputer) -> Deployment:
        owner = await targets.agent_of(durable, named)
        found = await durable.agents.deployments.get(owner.id, deployment_id)
        return await settled(durable, owner.id, found, Waiting(timeout, session.output)) if wait else found

    found = session.run_durable(work)
    pairs: list[tuple[str, object]] = [
        ("ID", found.id),
        ("Input", found.input_type),
        ("State", found.state),
        ("Result", found.result or "-"),
        ("Revision", found.revision.number if found.revision else "-"),
        ("Created", found.created_at),
    ]
    if found.state == "failed":
        pairs.append(("Error", reason(found)))
    session.output.result(found.raw, text.details(pairs))


def _show_logs(session: Session, named: str, deployment_id: str) -> None:
    async def work(durable: OpenComputer) -> list[DeploymentLog]:
        owner = await targets.agent_of(durable, named)
        return [each async for each in await durable.agents.deployments.logs(owner.id, deployment_id)]

    pieces = session.run_durable(work)
    lines = "".join(each.chunk for each in pieces).rstrip("\n").split("\n")
    shown = "\n".join(text.harmless(line) for line in lines)
    session.output.result([each.raw for each in pieces], shown or "Nothing was printed.")


def add_commands(group: typer.Typer) -> None:
    """Add these to the group."""
    group.command("deploy")(deploy)
    of_revisions = typer.Typer(help="Its revisions: `oc agent revisions [AGENT]` lists them; get.")
    of_revisions.command("list")(revisions)
    of_revisions.command("get")(revision)
    group.add_typer(of_revisions, name="revisions")
    group.command("versions", hidden=True)(revisions)
    group.command("rollback")(rollback)
    group.command("activations")(activations)
    group.command("deployments")(deployments)
    group.command("deployment")(deployment)


def _number(value: object) -> object:
    """A revision in an activation, by its number where the server tells it."""
    from opencomputer.sdk.answers import is_json_object

    return (value.get("number") or value.get("id")) if is_json_object(value) else value or "-"


def _summary(deployed: Deployed) -> str:
    deployment, agent = deployed.deployment, deployed.agent
    revision = deployment.revision if deployment is not None else None
    if revision is None:
        return f"{agent.name}  {agent.id}  revision {agent.revision} (active)"
    mark = (
        "active" if agent.active_revision_id == revision.id or agent.revision == revision.number else "staged"
    )
    note = ", nothing had changed" if deployment is not None and deployment.result == "deduped" else ""
    return f"{agent.name}  {agent.id}  revision {revision.number} ({mark}{note})"
