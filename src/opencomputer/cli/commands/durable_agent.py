"""`oc agent …` for durable agents: what sessions are started from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from opencomputer.cli import durable_targets as targets
from opencomputer.cli import text
from opencomputer.cli.commands import hosted_agent
from opencomputer.cli.failures import CommandError
from opencomputer.cli.options import YES, repeated
from opencomputer.cli.session import Session, session_of

if TYPE_CHECKING:
    from opencomputer.sdk.durable.agent_records import DurableAgent
    from opencomputer.sdk.durable.client import OpenComputer
    from opencomputer.sdk.durable.repository_records import DeploymentSource

REFERENCE = typer.Argument("", metavar="[AGENT]", help="Its id or name.", show_default=False)
AGENT = typer.Option("", "--agent", metavar="AGENT", help="Its id or name.", show_default=False)
HOSTED = typer.Option(False, "--hosted", help="Hosted agents are meant.")
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
    model: str = _option("--model", "The model it uses.", "PROVIDER/MODEL"),
    prompt: str = _option("--prompt", "What it is told."),
    prompt_file: str = _option("--prompt-file", "A file with what it is told.", "FILE"),
    runtime: str = _option("--runtime", "What runs it: claude, codex, …; claude by default."),
    credential: str = _option("--credential", "The key it uses.", "ID|managed"),
    limits: str = _option("--limits", 'Such as {"turn_seconds": 600}.', "JSON"),
    keep: int = typer.Option(0, "--keep", min=0, help="For how many turns its state is kept."),
    core: str = _option("--core", "Make a hosted agent with this program: hermes, openclaw."),
    secret: list[str] = repeated("--secret", "A secret of a hosted agent", "K=V"),
    display_name: str = _option("--display-name", "How a hosted agent is shown."),
    no_wait: bool = typer.Option(False, "--no-wait", help="Do not wait until a hosted agent is ready."),
) -> None:
    """Make an agent, or show the one of this name if it is configured like this.

    With --core it is a hosted one, which the server runs and which people talk to.
    """
    session = session_of(context)
    told = _prompt(prompt, prompt_file)
    if core:
        if told or runtime or credential or limits or keep:
            raise CommandError("a hosted agent takes --model, --secret, --display-name and --no-wait")
        new = hosted_agent.NewAgent(name, core, model, display_name, tuple(secret))
        hosted_agent.create(session, new, wait=not no_wait)
        return
    if not model or (told is None and runtime != "flue"):
        raise CommandError("pass --model and --prompt (or --prompt-file); or --core, for a hosted agent")

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
    session.output.identified(agent.raw, [agent.id], done)


def list_agents(context: typer.Context, hosted: bool = HOSTED) -> None:
    """List the durable agents."""
    if hosted:
        hosted_agent.list_agents(context)
        return
    session = session_of(context)

    async def work(durable: OpenComputer) -> list[DurableAgent]:
        return [each async for each in await durable.agents.list(limit=200)]

    agents = session.run_durable(work)
    rows = [[one.id, one.name, one.model, one.runtime, one.revision or "-", one.created_at] for one in agents]
    shown = text.table(_HEADERS, rows) if rows else "No agents."
    session.output.identified([one.raw for one in agents], [one.id for one in agents], shown)


def get(
    context: typer.Context, reference: str = REFERENCE, agent: str = AGENT, hosted: bool = HOSTED
) -> None:
    """Show an agent. Where there is no durable agent of a name, a hosted one is looked for."""
    session = session_of(context)
    named = targets.agent_reference(reference, agent)
    found = None if hosted else _durable_agent(session, named)
    if found is None:
        hosted_agent.get(session, named)
    else:
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
    yes: bool = YES,
    hosted: bool = HOSTED,
) -> None:
    """Delete an agent. The sessions of a durable one can still be read; of a hosted one nothing stays."""
    session = session_of(context)
    targets.confirm(f"Delete the agent {reference}?", session.output, yes=yes)
    found = None if hosted else _durable_agent(session, reference)
    if found is None:
        hosted_agent.delete(session, reference)
        return
    session.run_durable(lambda durable: durable.agents.delete(found.id))
    session.output.success({"id": found.id, "deleted": True}, f"{found.id} deleted")


def _durable_agent(session: Session, named: str) -> DurableAgent | None:
    """The durable agent of this name; None where only a hosted one has it."""
    try:
        return session.run_durable(lambda durable: targets.agent_of(durable, named))
    except CommandError:
        if named.startswith("agt_") or not _is_hosted(session, named):
            raise
        return None


def _is_hosted(session: Session, named: str) -> bool:
    from opencomputer.sdk.errors import OpenComputerError

    try:
        session.run_hosted(lambda hosted: hosted.get(named))
    except OpenComputerError:
        return False
    return True


def status(context: typer.Context, reference: str = REFERENCE, agent: str = AGENT) -> None:
    """Show what of an agent is live."""
    named = targets.agent_reference(reference, agent)
    session = session_of(context)

    async def work(durable: OpenComputer) -> tuple[DurableAgent, DeploymentSource | None]:
        from opencomputer.sdk.errors import OpenComputerError

        found = await targets.agent_of(durable, named)
        try:
            return found, await durable.agents.deployment_source.get(found.id)
        except OpenComputerError:
            return found, None  # Whatever the server says instead of a source: none is linked.

    found, source = session.run_durable(work)
    latest = found.deployment_status or {}
    value = {
        "id": found.id,
        "name": found.name,
        "revision": found.revision,
        "active_revision": found.raw.get("active_revision"),
        "deployment_status": found.deployment_status,
        "source": source.raw if source else None,
    }
    pairs = [
        ("Agent", f"{found.name} ({found.id})"),
        ("Active revision", found.revision or "none"),
        ("Last deployment", latest.get("state", "-")),
        ("Source", _source(source) if source else "not linked"),
    ]
    if source:
        pairs.append(("Deployed commit", source.active_deployed_sha or "none"))
    session.output.result(value, text.details(pairs))


def _source(source: DeploymentSource) -> str:
    folder = f"/{source.path}" if source.path else ""
    return f"{source.full_name or source.repo_id}{folder} ({source.production_ref})"


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
