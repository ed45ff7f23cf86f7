"""`oc orgs …`: the organisations of a node on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from opencomputer.cli import text
from opencomputer.cli.failures import CommandError
from opencomputer.cli.local_server import local_server
from opencomputer.cli.session import session_of


def create(
    context: typer.Context,
    name: str = typer.Argument(..., help="The organisation's name.", show_default=False),
    data: Path | None = typer.Option(None, help="The node's data folder.", show_default=False),
) -> None:
    """Add an organisation and print its first key, this once."""
    import asyncio

    with local_server():
        from opencomputer.server.domain.errors import OpenComputerError
        from opencomputer.server.main import create_organisation
        from opencomputer.server.settings import Overrides, SettingsError, load_settings

        try:
            folder = load_settings(os.environ, Overrides(data=data)).data
            if not folder.is_dir():
                raise CommandError(f"{folder} is no node's data folder; name it with --data")
            organisation, key = asyncio.run(create_organisation(name, folder))
        except (OpenComputerError, SettingsError) as error:
            raise CommandError(str(error)) from error
    session = session_of(context)
    value = {"id": organisation, "name": name, "key": key}
    session.output.result(value, text.details([("ID", organisation), ("Name", name), ("Key", key)]))
    session.output.note("The key is not shown again.")


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Organisations of a node on this machine: create.")
    group.callback()(_group)
    group.command("create")(create)
    app.add_typer(group, name="orgs")


def _group() -> None:
    # A group with a single command and no callback of its own would become that command.
    return
