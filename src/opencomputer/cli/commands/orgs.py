"""`oc orgs …`: the organisations of a node on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import typer

from opencomputer.cli import text
from opencomputer.cli.failures import CommandError
from opencomputer.cli.local_server import local_server
from opencomputer.cli.session import session_of

T = TypeVar("T")


def create(
    context: typer.Context,
    name: str = typer.Argument(..., help="The organisation's name.", show_default=False),
    data: Path | None = typer.Option(None, help="The node's data folder.", show_default=False),
) -> None:
    """Add an organisation and print its first key, this once."""

    async def work(folder: Path) -> tuple[str, str]:
        from opencomputer.server.main import create_organisation

        return await create_organisation(name, folder)

    organisation, key = _on_node(data, work)
    session = session_of(context)
    value = {"id": organisation, "name": name, "key": key}
    shown = text.details([("ID", organisation), ("Name", name), ("Key", key)])
    session.output.identified(value, [key], shown)
    session.output.note("The key is not shown again.")


def revoke_hook(
    context: typer.Context,
    token: str = typer.Argument(
        "-", help="The hook's URL, or just its token; - reads standard input.", show_default=False
    ),
    data: Path | None = typer.Option(None, help="The node's data folder.", show_default=False),
) -> None:
    """Revoke a hook whose URL has leaked, of whatever organisation: it starts nothing any more."""
    leaked = (sys.stdin.readline() if token == "-" else token).strip().rstrip("/").rpartition("/")[2]

    async def work(folder: Path) -> tuple[str, str]:
        from opencomputer.server.main import revoke_leaked_hook

        hook = await revoke_leaked_hook(leaked, folder)
        return hook.id, hook.agent_id

    hook, agent = _on_node(data, work)
    value = {"id": hook, "agent_id": agent, "revoked": True}
    session_of(context).output.success(value, f"{hook} of {agent} revoked")


def _on_node(data: Path | None, work: Callable[[Path], Coroutine[Any, Any, T]]) -> T:
    """Do something with the data folder of a node, whether or not it runs."""
    import asyncio

    with local_server():
        from opencomputer.server.contracts.stores import DatabaseUnusable
        from opencomputer.server.domain.errors import OpenComputerError
        from opencomputer.server.settings import Overrides, SettingsError, load_settings

        try:
            folder = load_settings(os.environ, Overrides(data=data)).data
            if not folder.is_dir():
                raise CommandError(f"{folder} is no node's data folder; name it with --data")
            return asyncio.run(work(folder))
        except (DatabaseUnusable, OpenComputerError, SettingsError) as error:
            raise CommandError(str(error)) from error


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Organisations of a node on this machine: create, revoke-hook.")
    group.command("create")(create)
    group.command("revoke-hook")(revoke_hook)
    app.add_typer(group, name="orgs")
