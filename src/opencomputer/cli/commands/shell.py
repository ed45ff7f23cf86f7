"""`oc shell SANDBOX`: a live terminal in a sandbox."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from opencomputer.cli.failures import CommandError
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.sdk.sandbox_link import SandboxLink


def shell(
    context: typer.Context,
    sandbox: str = typer.Argument(..., metavar="SANDBOX", help="The sandbox's id.", show_default=False),
    shell: str = typer.Option("", "--shell", metavar="PATH", help="The shell to start.", show_default=False),
    attach: str = typer.Option(
        "", "--attach", metavar="SESSION", help="Take up a terminal that was left.", show_default=False
    ),
) -> None:
    """Open a terminal in a sandbox. Enter ~ . leaves it running; ending the shell ends it."""
    if not sys.stdin.isatty():
        raise CommandError("standard input is not a terminal; use `oc exec` to run a command")
    session = session_of(context)

    async def work(link: SandboxLink) -> int:
        from opencomputer.cli.terminal_session import TerminalRequest, run_terminal
        from opencomputer.sdk.answers import json_object
        from opencomputer.sdk.control_plane import get

        link.learn(json_object(await link.plane.json(get(link.path()))))
        return await run_terminal(link, TerminalRequest(shell=shell or None, session_id=attach or None))

    raise typer.Exit(session.run_on(sandbox, work))


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("shell")(shell)
