"""`oc service …`: the node of this machine as a service of systemd."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import typer

from opencomputer.cli import text
from opencomputer.cli.failures import CommandError
from opencomputer.cli.local_server import local_server
from opencomputer.cli.session import session_of


def install(
    context: typer.Context,
    start: bool = typer.Option(True, "--start/--no-start", help="Start it now."),
) -> None:
    """Have systemd run the node, now and whenever this machine starts."""
    with _explained():
        from opencomputer.server.service_unit import ENVIRONMENT
        from opencomputer.server.service_unit import install as install_unit

        unit = install_unit(_program(), start=start)
    value = {"unit": str(unit), "settings": str(ENVIRONMENT), "started": start}
    session_of(context).output.success(value, f"installed {unit}; settings are in {ENVIRONMENT}")


def status(context: typer.Context) -> None:
    """Show whether the service is installed, and runs."""
    with _explained():
        from opencomputer.server.service_unit import state

        found = state()
    value = {
        "installed": found.installed,
        "active": found.active,
        "enabled": found.enabled,
        "mainPid": found.main_pid,
    }
    lines = [
        ("Installed", "yes" if found.installed else "no"),
        ("Active", found.active),
        ("Enabled", found.enabled),
        ("Process", str(found.main_pid or "")),
    ]
    session_of(context).output.result(value, text.details(lines))


def remove(context: typer.Context) -> None:
    """Stop the node and forget the service. Data, settings and running sandboxes stay."""
    with _explained():
        from opencomputer.server.service_unit import remove as remove_unit

        removed = remove_unit()
    message = "removed the service" if removed else "there was no service"
    session_of(context).output.success({"removed": removed}, message)


def unit(context: typer.Context) -> None:
    """Print the unit, to install it by other means."""
    with _explained():
        from opencomputer.server.service_unit import unit_text

        written = unit_text(_program())
    session_of(context).output.result({"unit": written}, written.rstrip("\n"))


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="The node of this machine as a service: install, status, remove, unit.")
    for name, command in (("install", install), ("status", status), ("remove", remove), ("unit", unit)):
        group.command(name)(command)
    app.add_typer(group, name="service")


def _program() -> Path:
    return Path(sys.executable).with_name("oc")


@contextmanager
def _explained() -> Generator[None]:
    with local_server():
        from opencomputer.server.service_unit import ServiceFailed

        try:
            yield
        except ServiceFailed as error:
            raise CommandError(str(error)) from error
