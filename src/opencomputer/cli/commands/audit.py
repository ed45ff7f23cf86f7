"""`oc audit`: which connections a sandbox made and was refused."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

from opencomputer.cli import text
from opencomputer.cli.failures import CommandError
from opencomputer.cli.output import Output, json_text
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.audit import AuditQuery
    from opencomputer.sdk.sandbox_link import SandboxLink

_HEADERS = ("TIME", "DECISION", "HOST", "PORT", "PROTOCOL", "OUT", "IN", "SECRETS")
FOLLOW_SECONDS = 1.0


def audit(
    context: typer.Context,
    sandbox: str = typer.Argument(..., metavar="SANDBOX", help="The sandbox's id.", show_default=False),
    follow: bool = typer.Option(False, "--follow", "-f", help="Go on until interrupted."),
    decision: str = typer.Option("", help="Only these: allowed or denied.", show_default=False),
    host: str = typer.Option("", help="Only this host, or *.domain.", show_default=False),
) -> None:
    """List what a sandbox reached and what it was refused, oldest first."""
    from opencomputer.sdk.audit import AuditQuery, events

    if decision not in {"", "allowed", "denied"}:
        raise CommandError("--decision must be allowed or denied")
    session = session_of(context)
    query = AuditQuery(decision=decision or None, host=host or None)
    if follow:
        session.run_on(sandbox, lambda link: _follow(link, query, session.output))
        return
    found = session.run_on(sandbox, lambda link: events(link, query))
    session.output.table(found, _HEADERS, [_row(each) for each in found], "No connections.")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("audit")(audit)


async def _follow(link: SandboxLink, query: AuditQuery, output: Output) -> None:
    """Print events as they come, until the sandbox is gone or the user has seen enough."""
    from dataclasses import replace

    from opencomputer.sdk.audit import events

    while True:
        for event in await events(link, query):
            output.line(json_text(event) if output.json else _line(event), flush=True)
            position = event.get("position")
            query = replace(query, after=position if isinstance(position, int) else query.after)
        await asyncio.sleep(FOLLOW_SECONDS)


def _line(event: JsonObject) -> str:
    return text.harmless("  ".join(str(cell) for cell in _row(event)).rstrip())


def _row(event: JsonObject) -> list[object]:
    from opencomputer.sdk.answers import texts, whole

    reason = event.get("reason")
    return [
        event.get("at", ""),
        f"{event.get('decision', '')}{f' ({reason})' if reason else ''}",
        event.get("host", ""),
        event.get("port", ""),
        event.get("protocol", ""),
        text.size(whole(event, "bytesOut") or 0),
        text.size(whole(event, "bytesIn") or 0),
        ", ".join(texts(event, "secrets")),
    ]
