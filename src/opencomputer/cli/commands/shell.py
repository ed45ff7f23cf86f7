"""`oc shell SANDBOX`: a live terminal in a sandbox."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import typer

from opencomputer.cli.failures import REFUSED, CommandError
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.cli.session import Session
    from opencomputer.sdk.sandbox_link import SandboxLink


_ID = re.compile(r"sb-.+|ses_.+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_HEADERS = ("ID", "STATUS", "CLIENTS", "STARTED", "SHELL")


def shell(
    context: typer.Context,
    sandbox: str = typer.Argument(
        ..., metavar="SANDBOX", help="Its id, a session's (ses_…), or a hosted agent's.", show_default=False
    ),
    shell: str = typer.Option("", "--shell", metavar="PATH", help="The shell to start.", show_default=False),
    attach: str = typer.Option(
        "", "--attach", metavar="SESSION", help="Take up a terminal that was left.", show_default=False
    ),
    listed: bool = typer.Option(False, "--list", help="List the sandbox's terminals and start none."),
) -> None:
    """Open a terminal in a sandbox. Enter ~ . leaves it running; ending the shell ends it."""
    if not (listed or sys.stdin.isatty()):
        raise CommandError("standard input is not a terminal; use `oc exec` to run a command")
    session = session_of(context)
    sandbox = _resolved(session, sandbox)
    if listed:
        _list(session, sandbox)
        return

    async def work(link: SandboxLink) -> int:
        from opencomputer.cli.terminal_session import TerminalRequest, run_terminal
        from opencomputer.sdk.answers import json_object
        from opencomputer.sdk.control_plane import get

        link.learn(json_object(await link.plane.json(get(link.path()))))
        return await run_terminal(link, TerminalRequest(shell=shell or None, session_id=attach or None))

    raise typer.Exit(session.run_on(sandbox, work))


def _resolved(session: Session, name: str) -> str:
    """The sandbox that is meant; what has no form of an id names a hosted agent, by its running instance."""
    if _ID.fullmatch(name):
        return name
    import asyncio

    from opencomputer.sdk.errors import NotFoundError, NotSupportedError
    from opencomputer.sdk.hosted.client import HostedAgents

    server = session.server

    async def running() -> list[str]:
        async with HostedAgents(server.api_key, server.sessions_url) as agents:
            instances = await agents.list_instances(name)
        return [each.sandbox_id for each in instances if each.status == "running" and each.sandbox_id]

    try:
        found = asyncio.run(running())
    except (NotFoundError, NotSupportedError):
        raise CommandError(
            f"{name!r} is no hosted agent of this server, and no id: those of sandboxes begin with sb-, "
            "those of sessions with ses_",
            REFUSED,
        ) from None
    if not found:
        raise CommandError(f"no instance of the agent {name!r} runs", REFUSED)
    return found[0]


def _list(session: Session, sandbox: str) -> None:
    from opencomputer.sdk.answers import json_objects, text
    from opencomputer.sdk.control_plane import get

    found = json_objects(session.run_on(sandbox, lambda link: link.plane.json(get(link.path("pty")))))
    rows = [
        [
            text(each, "sessionID"),
            "running" if each.get("running") else "ended",
            each.get("attachedClients", 0),
            text(each, "startedAt"),
            text(each, "command"),
        ]
        for each in found
    ]
    session.output.table(found, _HEADERS, rows, "No terminals.")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("shell")(shell)
