"""`oc agent …`: Claude agents in a sandbox, and the durable agents that sessions are started from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from opencomputer.cli import durable_targets as targets
from opencomputer.cli import text
from opencomputer.cli.commands import (
    agent_folder,
    agent_hooks,
    agent_invoking,
    agent_schedules,
    agent_secrets,
    agent_source,
    deployment,
    durable_agent,
    hosted_agent,
    hosted_work,
)
from opencomputer.cli.failures import CommandError
from opencomputer.cli.session import Session, session_of

if TYPE_CHECKING:
    from opencomputer.sdk.agent_session import AgentSettings
    from opencomputer.sdk.sandbox_link import SandboxLink

_SANDBOX = typer.Argument(..., metavar="SANDBOX", help="The sandbox's id.", show_default=False)
_SESSION = typer.Argument(..., metavar="SESSION", help="The agent's id.", show_default=False)
_HEADERS = ("ID", "STATUS", "STARTED")


def _option(name: str, help: str, metavar: str | None = None) -> str:
    return typer.Option("", name, metavar=metavar, help=help, show_default=False)


def run(
    context: typer.Context,
    target: str = typer.Argument(..., metavar="SANDBOX|AGENT", help="Its id.", show_default=False),
    prompt: str = typer.Argument("", metavar="[PROMPT]", help="What it is to do.", show_default=False),
    model: str = _option("--model", "The model that does it."),
    system_prompt: str = _option("--system-prompt", "What it is told beforehand."),
    allowed_tools: list[str] = typer.Option([], metavar="TOOL", help="A tool it may use; repeatable."),
    permission_mode: str = _option("--permission-mode", "How it asks before it acts.", "MODE"),
    max_turns: int = typer.Option(0, min=0, help="End it after so many steps.", show_default=False),
    cwd: str = _option("--cwd", "The directory it works in.", "DIRECTORY"),
    resume: str = _option("--resume", "Go on with an earlier conversation.", "CLAUDE_SESSION"),
    keep: bool = typer.Option(False, "--keep", help="Leave it running when it is done."),
    input: str = _option("--input", "Of a hosted agent: what it works on.", "JSON|@FILE"),
    wait: bool = typer.Option(False, "--wait", help="Of a hosted agent: print the result when it is there."),
) -> None:
    """Give an agent in a sandbox a task and follow it until it is done.

    Ctrl-C interrupts it; once more leaves it working. `oc agent attach` follows it again. A hosted agent gets
    a sandbox for the task alone: `oc agent run AGENT --input JSON --wait`.
    """
    if not prompt:
        if targets.is_sandbox(target):
            raise CommandError("what is it to do? Write it after the sandbox's id")
        hosted_work.run_session(session_of(context), target, input, wait=wait)
        return
    if input or wait:
        raise CommandError("--input and --wait are for hosted agents, which take no prompt")
    from opencomputer.sdk.agent_session import AgentSettings

    settings = AgentSettings(
        model=model or None,
        system_prompt=system_prompt or None,
        allowed_tools=allowed_tools or None,
        permission_mode=permission_mode or None,
        max_turns=max_turns or None,
        cwd=cwd or None,
        resume=resume or None,
    )
    raise typer.Exit(_run(session_of(context), target, prompt, settings, keep=keep))


def _run(session: Session, sandbox: str, prompt: str, settings: AgentSettings, *, keep: bool) -> int:
    async def work(link: SandboxLink) -> int:
        from opencomputer.cli.agent_following import AgentTask, run_agent

        return await run_agent(link, AgentTask(prompt, settings, keep=keep), session.output)

    return session.run_on(sandbox, work)


def attach(context: typer.Context, sandbox: str = _SANDBOX, session_id: str = _SESSION) -> None:
    """Follow an agent, from its beginning. On a terminal, each line typed is a prompt.

    Ctrl-C interrupts what it does; once more, or with nothing to interrupt, leaves it.
    """
    session = session_of(context)

    async def work(link: SandboxLink) -> int:
        from opencomputer.cli.agent_following import attach_agent

        return await attach_agent(link, session_id, session.output)

    raise typer.Exit(session.run_on(sandbox, work))


def list_agents(
    context: typer.Context,
    sandbox: str = typer.Argument("", metavar="[SANDBOX]", help="A sandbox's id.", show_default=False),
    hosted: bool = durable_agent.HOSTED,
) -> None:
    """List the durable agents, or those in a sandbox."""
    if not sandbox:
        durable_agent.list_agents(context, hosted)
        return
    from opencomputer.sdk.answers import json_objects
    from opencomputer.sdk.control_plane import get

    session = session_of(context)
    answer = json_objects(session.run_on(sandbox, lambda link: link.plane.json(get(link.path("agent")))))
    rows = [
        [item.get("sessionID", ""), "running" if item.get("running") else "ended", item.get("startedAt", "-")]
        for item in answer
    ]
    shown = text.table(_HEADERS, rows) if rows else "No agents."
    session.output.identified(answer, [str(row[0]) for row in rows], shown)


def kill(context: typer.Context, sandbox: str = _SANDBOX, session_id: str = _SESSION) -> None:
    """End an agent."""
    from opencomputer.sdk.exec_session import kill_session

    session = session_of(context)
    session.run_on(sandbox, lambda link: kill_session(link, "agent", session_id, 9))
    session.output.success({"sessionID": session_id, "killed": True}, f"{session_id} killed")


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Durable agents, and agents in a sandbox (run, attach, ls SANDBOX, kill).")
    for part in (durable_agent, agent_folder, deployment, agent_source, agent_hooks, agent_schedules):
        part.add_commands(group)
    for part in (agent_invoking, agent_secrets, hosted_agent, hosted_work):
        part.add_commands(group)
    group.command("run")(run)
    group.command("attach")(attach)
    group.command("ls")(list_agents)
    group.command("kill")(kill)
    app.add_typer(group, name="agent")
