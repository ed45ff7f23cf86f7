"""`oc completion SHELL`: the script that teaches a shell to complete `oc`."""

from __future__ import annotations

import os
import subprocess
import sys
from enum import StrEnum

import typer

from opencomputer.cli.arguments import COMPLETION_VARIABLE


class ShellName(StrEnum):
    """The shells that can be taught."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


def completion(shell: ShellName = typer.Argument(..., help="The shell.", show_default=False)) -> None:
    """Print the script that teaches a shell to complete `oc`, for its start-up file."""
    # The library prints it when this variable asks for it, before it looks at any argument.
    environment = os.environ | {COMPLETION_VARIABLE: f"source_{shell.value}"}
    program = [sys.executable, "-m", "opencomputer.cli"]
    printed = subprocess.run(program, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    typer.echo(printed.stdout, nl=False)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("completion")(completion)
