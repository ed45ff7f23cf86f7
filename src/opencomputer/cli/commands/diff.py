"""`oc diff`: which files of a sandbox changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from opencomputer.cli import text
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject

_HEADERS = ("CHANGE", "SIZE", "PATH")


def diff(
    context: typer.Context,
    sandbox: str = typer.Argument(..., metavar="SANDBOX", help="The sandbox's id.", show_default=False),
    since: str = typer.Option(
        "", "--from", metavar="CHECKPOINT", help="Compare with this checkpoint of it.", show_default=False
    ),
) -> None:
    """List the files that changed in a sandbox. Since it was created, unless a checkpoint is named."""
    from opencomputer.sdk.answers import json_objects
    from opencomputer.sdk.diffs import diff_answer

    session = session_of(context)
    answer = session.run_on(sandbox, lambda link: diff_answer(link, since))
    rows = [_row(each) for each in json_objects(answer.get("changes"))]
    session.output.table(answer, _HEADERS, rows, "No changes.")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("diff")(diff)


def _row(change: JsonObject) -> list[object]:
    from opencomputer.sdk.answers import flag, whole

    directory = flag(change, "isDirectory")
    has_size = not directory and change.get("kind") != "deleted"
    return [
        change.get("kind", ""),
        text.size(whole(change, "size") or 0) if has_size else "-",
        f"{change.get('path', '')}{'/' if directory else ''}",
    ]
