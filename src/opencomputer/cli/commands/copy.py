"""`oc cp`: files and folders between here and a sandbox."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from opencomputer.cli import text
from opencomputer.cli.copying import Copied, Place, place
from opencomputer.cli.failures import CommandError
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.sdk.sandbox_link import SandboxLink

_PLACE = "PATH or SANDBOX:PATH"


def copy(
    context: typer.Context,
    source: str = typer.Argument(..., metavar="SOURCE", help=f"{_PLACE}; - is standard input."),
    target: str = typer.Argument(..., metavar="TARGET", help=f"{_PLACE}; - is standard output."),
) -> None:
    """Copy a file or a whole folder into a sandbox or out of it.

    A target that is a folder, or ends in /, receives the source under its own name.
    """
    from_place, to_place = place(source), place(target)
    sandbox = _the_one_sandbox(from_place, to_place)
    session = session_of(context)

    async def work(link: SandboxLink) -> Copied:
        from opencomputer.cli.transfers import Progress, download, upload

        output = session.output
        colour = output.shows_colour(sys.stderr)
        with Progress(shown=output.shows_progress, colour=colour) as progress:
            if to_place.sandbox:
                return await upload(link, from_place.path, to_place.path, progress)
            return await download(link, from_place.path, to_place.path, progress)

    copied = session.run_on(sandbox, work)
    if target == "-":
        return
    value = {"files": copied.files, "bytes": copied.size_bytes}
    plural = "" if copied.files == 1 else "s"
    session.output.success(value, f"{copied.files} file{plural}, {text.size(copied.size_bytes)}")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("cp")(copy)


def _the_one_sandbox(source: Place, target: Place) -> str:
    if source.sandbox and target.sandbox:
        raise CommandError("one side has to be on this machine; copy out of one sandbox, then into the other")
    if not (source.sandbox or target.sandbox):
        raise CommandError("neither side names a sandbox; write it as SANDBOX:PATH")
    return source.sandbox or target.sandbox
