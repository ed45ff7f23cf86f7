"""`oc mcp`: give an MCP client sandboxes as tools."""

from __future__ import annotations

import sys

import typer

from opencomputer.cli.failures import CommandError
from opencomputer.cli.installation import how_to_add
from opencomputer.cli.session import session_of


def mcp(
    context: typer.Context,
    sandbox: str = typer.Option(
        "", "--sandbox", metavar="SANDBOX", help="Give it this one and no other.", show_default=False
    ),
    kill_at_exit: bool = typer.Option(
        False, "--kill-at-exit", help="When the client leaves, kill the sandboxes it made."
    ),
) -> None:
    """Serve sandboxes as tools to an MCP client, over standard input and output.

    The client starts it; see the guide for how Claude Code, Codex and others are told to.
    """
    if sys.stdin.isatty():
        raise CommandError(
            "`oc mcp` speaks a protocol, not with people; let an MCP client start it, as in "
            "`claude mcp add opencomputer -- oc mcp`"
        )
    server = session_of(context).server
    try:
        from opencomputer.cli.mcp.sandboxes import Access
        from opencomputer.cli.mcp.server import serve
    except ModuleNotFoundError as error:
        message = f"`oc mcp` needs one more package (missing: {error.name})"
        raise CommandError(message, hint=how_to_add("mcp")) from error
    serve(Access(server.api_key, server.api_url, sandbox or None, kill_at_exit))


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("mcp")(mcp)
