"""`oc logs SANDBOX`: what its programs write."""

from __future__ import annotations

import re
import shlex
from datetime import datetime
from typing import TYPE_CHECKING

import typer

from opencomputer.cli import text
from opencomputer.cli.failures import CommandError
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.cli.output import Output, Style
    from opencomputer.sdk.logs import LogLine, LogQuery
    from opencomputer.sdk.sandbox_link import SandboxLink

_SOURCES = ("var_log", "exec_stdout", "exec_stderr", "agent")
_STYLES: dict[str, Style] = {
    "var_log": "cyan",
    "exec_stdout": "dim",
    "exec_stderr": "red",
    "agent": "yellow",
}
_DURATION = re.compile(r"[0-9]{1,6}[smhd]", re.ASCII)
_MOST_LINES = 10_000


def logs(
    context: typer.Context,
    sandbox: str = typer.Argument(..., metavar="SANDBOX", help="The sandbox's id.", show_default=False),
    follow: bool = typer.Option(
        True,
        "--follow/--no-tail",
        "-f",
        help="Go on with what comes, or print only what is there.",
    ),
    since: str = typer.Option("", help="From then on: 30m, 2h, or RFC 3339.", show_default=False),
    until: str = typer.Option("", help="Until then: RFC 3339. Not while following.", show_default=False),
    grep: str = typer.Option("", help="Only lines with this in them.", show_default=False),
    source: str = typer.Option(
        "", metavar="LIST", help=f"Only from these: {','.join(_SOURCES)}.", show_default=False
    ),
    limit: int = typer.Option(0, min=0, max=_MOST_LINES, help="The newest so many; 0 for 1000."),
) -> None:
    """Print what the programs of a sandbox write, and what they will.

    Commands, sessions and agents, and files below /var/log; never terminals. A sandbox that sleeps or is
    stopped has only history, and is not woken.
    """
    from opencomputer.sdk.logs import LogQuery

    if since and not _DURATION.fullmatch(since):
        _check_moment(since, "--since", "a duration like 30m or 2h, or RFC 3339")
    if until:
        _check_moment(until, "--until", "RFC 3339, like 2026-01-02T03:04:05Z")
    sources = text.listed(source)
    if unknown := [each for each in sources if each not in _SOURCES]:
        raise CommandError(f"--source knows {', '.join(_SOURCES)}, not {unknown[0]!r}")
    session = session_of(context)
    query = LogQuery(follow, since or None, until or None, grep, tuple(sources), limit)
    session.run_on(sandbox, lambda link: _print(link, query, session.output))


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("logs")(logs)


def _check_moment(given: str, option: str, allowed: str) -> None:
    try:
        datetime.fromisoformat(given)
    except ValueError:
        raise CommandError(f"{option} takes {allowed}, not {given!r}") from None


async def _print(link: SandboxLink, query: LogQuery, output: Output) -> None:
    from contextlib import aclosing
    from dataclasses import replace

    from opencomputer.sdk.answers import json_object
    from opencomputer.sdk.answers import text as text_of
    from opencomputer.sdk.control_plane import get
    from opencomputer.sdk.logs import follow

    if query.tail:
        description = json_object(await link.plane.json(get(link.path())))
        query = replace(query, tail=text_of(description, "status") == "running")
    async with aclosing(follow(link, query)) as lines:
        async for line in lines:
            _print_line(line, output)


def _print_line(line: LogLine, output: Output) -> None:
    from opencomputer.cli.output import json_text

    if output.json:
        output.line(json_text(line.data), flush=True)
        return
    if line.lost:
        output.line(output.styled(f"… at least {line.lost} more that were not kept", "dim"), flush=True)
    prefix = f"{_clock(line.time)} {text.harmless(line.source):<12}"
    if line.exit_code is None:
        style = _STYLES.get(line.source, "dim")
        said = f"{line.path}: {line.line}" if line.path else line.line
        output.line(output.styled(f"{prefix} {text.harmless(said)}".rstrip(), style), flush=True)
        return
    command = text.harmless(shlex.join([line.command or "", *line.args]))
    style: Style = "green" if line.exit_code == 0 else "red"
    output.line(output.styled(f"{prefix} exited with {line.exit_code}: {command}", style), flush=True)


def _clock(time: str) -> str:
    """The local time of day, in milliseconds."""
    try:
        return datetime.fromisoformat(time).astimezone().strftime("%H:%M:%S.%f")[:-3]
    except ValueError:
        return "-" * len("00:00:00.000")
