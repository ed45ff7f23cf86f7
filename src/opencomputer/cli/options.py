"""Options that many commands have."""

from __future__ import annotations

from typing import Any

import typer

SANDBOX: Any = typer.Argument(..., metavar="SANDBOX", help="The sandbox's id.", show_default=False)
YES: Any = typer.Option(False, "--yes", "-y", help="Do not ask.")


def optional(name: str, help: str, metavar: str | None = None) -> Any:
    """An option with a text, "" when it is not given."""
    return typer.Option("", name, metavar=metavar, help=help, show_default=False)


def repeated(name: str, help: str, metavar: str) -> Any:
    """An option that may be given several times."""
    return typer.Option([], name, metavar=metavar, help=f"{help}; repeatable.", show_default=False)


def named(metavar: str, help: str) -> Any:
    """An argument that has to be there."""
    return typer.Argument(..., metavar=metavar, help=help, show_default=False)
