"""`oc patch …`: scripts that sandboxes made from a checkpoint run once."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from opencomputer.cli.failures import CommandError
from opencomputer.cli.session import session_of

_CHECKPOINT = typer.Argument(..., metavar="CHECKPOINT", help="The checkpoint's id.", show_default=False)
_HEADERS = ("ID", "SEQ", "DESCRIPTION", "STRATEGY", "CREATED")


def create(
    context: typer.Context,
    checkpoint: str = _CHECKPOINT,
    script: str = typer.Option(
        ..., "--script", metavar="FILE", help="The bash script; - is standard input.", show_default=False
    ),
    description: str = typer.Option("", help="What it is for.", show_default=False),
) -> None:
    """Add a script. New sandboxes run it at once, those that exist when they wake."""
    from opencomputer.sdk.answers import json_object
    from opencomputer.sdk.patches import Patches

    content = _read(script)
    session = session_of(context)
    answer = session.run(lambda plane: Patches(plane, checkpoint).create(content, description))
    patch = json_object(answer.get("patch"))
    done = session.output.done(f"{patch.get('id')} is patch {patch.get('sequence')}")
    session.output.identified(answer, [patch.get("id")], done)


def list_patches(context: typer.Context, checkpoint: str = _CHECKPOINT) -> None:
    """List a checkpoint's scripts in the order they run."""
    from opencomputer.sdk.patches import Patches

    session = session_of(context)
    answer = session.run(lambda plane: Patches(plane, checkpoint).list())
    rows = [
        [
            each.get("id", ""),
            each.get("sequence", ""),
            each.get("description") or "-",
            each.get("strategy", ""),
            each.get("createdAt") or "-",
        ]
        for each in answer
    ]
    session.output.table(answer, _HEADERS, rows, "No patches.")


def delete(
    context: typer.Context,
    checkpoint: str = _CHECKPOINT,
    patch: str = typer.Argument(..., metavar="PATCH", help="The patch's id.", show_default=False),
) -> None:
    """Delete a script. Where it ran already, its effect stays."""
    from opencomputer.sdk.control_plane import Call
    from opencomputer.sdk.sandbox_link import path_below_sandboxes

    session = session_of(context)
    path = path_below_sandboxes("checkpoints", checkpoint, "patches", patch)
    session.run(lambda plane: plane.send(Call("DELETE", path)))
    session.output.success({"id": patch, "deleted": True}, f"{patch} deleted")


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Scripts for forks of a checkpoint: create, list, delete.")
    group.command("create")(create)
    group.command("list")(list_patches)
    group.command("ls", hidden=True)(list_patches)
    group.command("delete")(delete)
    app.add_typer(group, name="patch")


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CommandError(f"cannot read {file}: {reason}") from error
