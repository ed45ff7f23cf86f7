"""`oc update`: how to get a newer version.

`oc` asks nobody whether there is one, neither here nor in passing: it talks to the server it is told to talk
to and to nothing else, and a self-hosted server has no list of releases to ask.
"""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from opencomputer.cli import text
from opencomputer.cli.installation import origin, update_command
from opencomputer.cli.session import session_of


def update(
    context: typer.Context,
    check: bool = typer.Option(False, "--check", help="Show the version only."),
    yes: bool = typer.Option(False, "--yes", hidden=True, help="Nothing is asked anyway."),
) -> None:
    """Show the command that installs the newest version."""
    from opencomputer.sdk.version import installed_version

    del yes
    version, command = installed_version(), update_command(Path(sys.prefix), origin())
    pairs = [("Version", version)] if check else [("Version", version), ("Update with", command)]
    session_of(context).output.result({"version": version, "command": command}, text.details(pairs))


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("update")(update)
