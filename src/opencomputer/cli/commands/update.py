"""`oc update`: how to get a newer version.

`oc` asks nobody whether there is one, neither here nor in passing: it talks to the server it is told to talk
to and to nothing else, and a self-hosted server has no list of releases to ask.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import typer

from opencomputer.cli import text
from opencomputer.cli.session import session_of


def update(
    context: typer.Context,
    check: bool = typer.Option(False, "--check", help="Show the version only."),
    yes: bool = typer.Option(False, "--yes", hidden=True, help="Nothing is asked anyway."),
) -> None:
    """Show the command that installs the newest version."""
    from opencomputer.sdk.version import installed_version

    del yes
    version, command = installed_version(), install_command(Path(sys.prefix), origin())
    pairs = [("Version", version)] if check else [("Version", version), ("Update with", command)]
    session_of(context).output.result({"version": version, "command": command}, text.details(pairs))


def origin() -> dict[str, Any]:
    """Where this installation came from, as installers note it when that was no package index."""
    from importlib.metadata import PackageNotFoundError, distribution

    from opencomputer.sdk.version import DISTRIBUTION

    try:
        return json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return {}


def install_command(prefix: Path, came_from: dict[str, Any]) -> str:
    """What updates an installation in this place, from where it came: an index may have another program under
    the same name."""
    from opencomputer.sdk.version import DISTRIBUTION

    pip = f"{shlex.quote(sys.executable)} -m pip install --upgrade"
    url, version_control = str(came_from.get("url", "")), came_from.get("vcs_info")
    if version_control:
        source = f"{DISTRIBUTION} @ {version_control['vcs']}+{url}"
        return f"{pip} {shlex.quote(source)}"
    if "dir_info" in came_from:
        folder = shlex.quote(unquote(urlsplit(url).path))
        update = "make -C {0} setup" if came_from["dir_info"].get("editable") else f"{pip} {{0}}"
        return f"git -C {folder} pull && {update.format(folder)}"
    if "pipx" in prefix.parts:
        return f"pipx upgrade {DISTRIBUTION}"
    if prefix.parent.name == "tools" and prefix.parent.parent.name == "uv":
        return f"uv tool upgrade {DISTRIBUTION}"
    return f"{pip} {DISTRIBUTION}"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("update")(update)
