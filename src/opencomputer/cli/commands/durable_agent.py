"""`oc agent …` for durable agents: what sessions are started from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from opencomputer.cli import durable_targets as targets
from opencomputer.cli import text
from opencomputer.cli.failures import CommandError
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.sdk.durable.agent_records import DurableAgent
    from opencomputer.sdk.durable.client import OpenComputer

REFERENCE = typer.Argument("", metavar="[AGENT]", help="Its id or name.", show_default=False)
AGENT = typer.Option("", "--agent", metavar="AGENT", help="Its id or name.", show_default=False)
QUIET = typer.Option(False, "--quiet", "-q", help="Print ids alone.")
_HEADERS = ("ID", "NAME", "MODEL", "RUNTIME", "ACTIVE_REV", "CREATED")


def _option(name: str, help: str, metavar: str | None = None) -> str:
    return typer.Option("", name, metavar=metavar, help=help, show_default=False)


def _prompt(text: str, file: str) -> str | None:
    if text and file:
        raise CommandError("--prompt and --prompt-file exclude each other")
    return targets.file_text(file) if file else text or None


def create(
    context: typer.Context,
    name: str = typer.Argument(..., help="What it is called.", show_default=False),
    model: str = typer.Option(..., metavar="PROVIDER/MODEL", help="The model it uses.", show_default=False),
    prompt: str = _option("--prompt", "What it is told."),
    prompt_file: str = _option("--prompt-file", "A file with what it is told.", "FILE"),
    runtime: str = _option("--runtime", "What runs it: claude, codex, …; claude by default."),
    credential: str = _option("--credential", "The key it uses.", "ID|managed"),
    limits: str = _option("--limits", 'Such as {"turn_seconds": 600}.', "JSON"),
    keep: int = typer.Option(0, "--keep", min=0, help="For how many turns its state is kept."),
    quiet: bool = QUIET,
) -> None:
    """Make an agent, or show the one of this name if it is configured like this."""
    told = _prompt(prompt, prompt_file)
    if told is None:
        raise CommandError("what is it told? Pass --prompt or --prompt-file")
    session = session_of(context)

    async def work(durable: OpenComputer) -> DurableAgent:
        return await durable.agents.create(
            name=name,
            model=model,
            prompt=told,
            runtime=runtime or None,
            credential=credential or None,
            limits=targets.numbers(limits, "--limits"),
            checkpoints={"keep": keep} if keep else None,
        )

    agent = session.run_durable(work)
    done = session.output.done(f"{agent.name}  {agent.id}  revision {agent.revision}")
    session.output.identified(agent.raw, [agent.id], done, quiet=quiet)


def list_agents(context: typer.Context, quiet: bool = QUIET) -> None:
    """List the durable agents."""
    session = session_of(context)

    async def work(durable: OpenComputer) -> list[DurableAgent]:
        return [each async for each in await durable.agents.list(limit=200)]

    agents = session.run_durable(work)
    rows = [[one.id, one.name, one.model, one.runtime, one.revision or "-", one.created_at] for one in agents]
    shown = text.table(_HEADERS, rows) if rows else "No agents."
    session.output.identified([one.raw for one in agents], [one.id for one in agents], shown, quiet=quiet)


def get(context: typer.Context, reference: str = REFERENCE, agent: str = AGENT) -> None:
    """Show an agent."""
    session = session_of(context)
    named = targets.agent_reference(reference, agent)
    found = session.run_durable(lambda durable: targets.agent_of(durable, named))
    session.output.result(found.raw, text.details(_details(found)))


def update(
    context: typer.Context,
    reference: str = REFERENCE,
    agent: str = AGENT,
    prompt: str = _option("--prompt", "What it is told."),
    prompt_file: str = _option("--prompt-file", "A file with what it is told.", "FILE"),
    model: str = _option("--model", "The model it uses.", "PROVIDER/MODEL"),
    credential: str = _option("--credential", "The key it uses.", "ID|managed|default"),
    limits: str = _option("--limits", 'Such as {"turn_seconds": 600}; {} for none.', "JSON"),
    keep: int = typer.Option(-1, "--keep", min=-1, help="For how many turns its state is kept."),
) -> None:
    """Change an agent for sessions to come."""
    from opencomputer.sdk.durable.bodies import NOT_GIVEN

    told = _prompt(prompt, prompt_file)
    named = targets.agent_reference(reference, agent)
    session = session_of(context)

    async def work(durable: OpenComputer) -> DurableAgent:
        found = await targets.agent_of(durable, named)
        return await durable.agents.update(
            found.id,
            prompt=told,
            model=model or None,
            credential=(None if credential == "default" else credential) if credential else NOT_GIVEN,
            limits=(targets.numbers(limits, "--limits") or None) if limits else NOT_GIVEN,
            checkpoints={"keep": keep} if keep >= 0 else NOT_GIVEN,
        )

    changed = session.run_durable(work)
    session.output.success(changed.raw, f"{changed.name}  {changed.id}  revision {changed.revision}")


def delete(
    context: typer.Context,
    reference: str = typer.Argument(..., metavar="AGENT", help="Its id or name.", show_default=False),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
) -> None:
    """Delete an agent. Its sessions can still be read."""
    session = session_of(context)
    targets.confirm(f"Delete the agent {reference}?", session.output, yes=yes)

    async def work(durable: OpenComputer) -> str:
        found = await targets.agent_of(durable, reference)
        await durable.agents.delete(found.id)
        return found.id

    agent_id = session.run_durable(work)
    session.output.success({"id": agent_id, "deleted": True}, f"{agent_id} deleted")


def status(context: typer.Context, reference: str = REFERENCE, agent: str = AGENT) -> None:
    """Show what of an agent is live."""
    named = targets.agent_reference(reference, agent)
    session = session_of(context)
    found = session.run_durable(lambda durable: targets.agent_of(durable, named))
    latest = found.deployment_status or {}
    value = {
        "id": found.id,
        "name": found.name,
        "revision": found.revision,
        "active_revision": found.raw.get("active_revision"),
        "deployment_status": found.deployment_status,
        "source": None,
    }
    pairs = [
        ("Agent", f"{found.name} ({found.id})"),
        ("Active revision", found.revision or "none"),
        ("Last deployment", latest.get("state", "-")),
        ("Source", "not linked"),
    ]
    session.output.result(value, text.details(pairs))


def add_commands(group: typer.Typer) -> None:
    """Add these to the group."""
    group.command("create")(create)
    group.command("list")(list_agents)
    group.command("get")(get)
    group.command("update")(update)
    group.command("delete")(delete)
    group.command("status")(status)


def _details(agent: DurableAgent) -> list[tuple[str, object]]:
    limits = ", ".join(f"{name} {value}" for name, value in (agent.limits or {}).items())
    kept = (agent.checkpoints or {}).get("keep") or 0
    return [
        ("ID", agent.id),
        ("Name", agent.name),
        ("Model", agent.model),
        ("Runtime", agent.runtime),
        ("Revision", agent.revision or "none"),
        ("Credential", agent.credential_id or "default"),
        ("Limits", limits or "-"),
        ("Turns kept", kept),
        ("Agent URL", agent.invoke_url or "-"),
        ("Created", agent.created_at),
    ]
