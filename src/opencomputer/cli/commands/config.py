"""`oc config …`: what `oc` keeps in its file."""

from __future__ import annotations

import os
from enum import StrEnum

import typer

from opencomputer.cli import text
from opencomputer.cli.config import abbreviated, config_file, read_json, save
from opencomputer.cli.session import session_of


class Setting(StrEnum):
    """What can be kept."""

    API_KEY = "api-key"
    API_URL = "api-url"
    SESSIONS_API_URL = "sessions-api-url"


def set_value(
    context: typer.Context,
    setting: Setting = typer.Argument(..., help="What to set.", show_default=False),
    value: str = typer.Argument(..., help="Its value.", show_default=False),
) -> None:
    """Keep a value for later runs."""
    path = config_file(os.environ)
    known = read_json(path)
    name = setting.value.replace("-", "_")
    if setting is Setting.API_KEY:
        # A key from elsewhere is not the one that a login made and may revoke.
        known.pop("login", None)
    save(path, known | {name: value})
    session_of(context).output.success({"saved": setting.value}, f"{setting.value} saved in {path}")


def show(context: typer.Context) -> None:
    """Show what applies now, from wherever it comes."""
    session = session_of(context)
    server = session.server
    key = abbreviated(server.api_key)
    value = {"api_url": server.api_url, "api_key": key, "file": str(config_file(os.environ))}
    pairs = [("API URL", server.api_url), ("API key", key), ("File", value["file"])]
    session.output.result(value, text.details(pairs))


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Saved settings: set, show.")
    group.command("set")(set_value)
    group.command("show")(show)
    app.add_typer(group, name="config")
