"""`oc doctor`: what this machine can and cannot do for a node, and how to change it."""

from __future__ import annotations

from typing import Protocol

import typer

from opencomputer.cli import text
from opencomputer.cli.failures import LOCAL_FAILURE
from opencomputer.cli.local_server import local_server
from opencomputer.cli.output import Output, Style
from opencomputer.cli.session import session_of

_MARKS: dict[str, tuple[str, Style]] = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}


class Check(Protocol):
    """What the server says of one thing it looked at."""

    @property
    def name(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def fix(self) -> str: ...


def doctor(
    context: typer.Context,
    deep: bool = typer.Option(
        False, "--deep", help="Also read all that is saved, and start a machine and save it."
    ),
) -> None:
    """Look at everything a node needs on this machine. Changes nothing."""
    with local_server():
        from opencomputer.server.doctor import run_checks

        checks = run_checks(deep=deep)
    output = session_of(context).output
    lines = [line for check in checks for line in _lines(output, check)]
    output.result([_view(check) for check in checks], "\n".join(lines))
    if any(check.status == "fail" for check in checks):
        raise typer.Exit(LOCAL_FAILURE)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def _view(check: Check) -> dict[str, str]:
    return {"name": check.name, "status": check.status, "summary": check.summary, "fix": check.fix}


def _lines(output: Output, check: Check) -> list[str]:
    mark, style = _MARKS[check.status]
    lines = [f"{output.styled(mark, style)} {check.name}: {text.harmless(check.summary)}"]
    if check.fix and check.status != "ok":
        lines.append(f"  {output.styled('fix:', 'dim')} {text.harmless(check.fix)}")
    return lines
