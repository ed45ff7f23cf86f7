"""`oc session webhooks …`: where a session's events are sent, and how that went."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from opencomputer.cli.commands.session_reading import LEVELS, SESSION, bare
from opencomputer.cli.failures import CommandError
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.sdk.durable.client import OpenComputer
    from opencomputer.sdk.durable.session_records import Delivery, Destination

_HEADERS = ("ID", "URL", "LEVEL", "TYPES", "SIGNED", "ENABLED")
_DELIVERY_HEADERS = ("ID", "DESTINATION", "EVENT", "STATUS", "ATTEMPTS", "CODE", "ERROR")


def add(
    context: typer.Context,
    session_id: str = SESSION,
    url: str = typer.Argument(..., help="Where they are sent.", show_default=False),
    secret: str = typer.Option("", "--secret", help="What they are signed with.", show_default=False),
    level: str = typer.Option("user", "--level", help="For whom: user, progress or internal (all)."),
    type: list[str] = typer.Option([], "--type", help="Only this type, or prefix.*; repeatable."),
) -> None:
    """Send what happens from now on to a URL."""
    if level not in LEVELS:
        raise CommandError(f"--level takes {', '.join(LEVELS)}")
    session = session_of(context)

    async def work(durable: OpenComputer) -> Destination:
        destinations = bare(durable, session_id).destinations
        return await destinations.create(url, secret=secret or None, level=level, types=type or None)

    made = session.run_durable(work)
    session.output.success(made.raw, f"{made.id}  {made.url}")


def list_webhooks(context: typer.Context, session_id: str = SESSION) -> None:
    """List where a session's events are sent."""
    session = session_of(context)

    async def work(durable: OpenComputer) -> list[Destination]:
        return list(await bare(durable, session_id).destinations.list())

    found = session.run_durable(work)
    rows = [
        [
            each.id,
            each.url,
            each.level,
            ", ".join(each.types or []) or "all",
            _yes(each.has_secret),
            _yes(each.enabled),
        ]
        for each in found
    ]
    session.output.table([each.raw for each in found], _HEADERS, rows, "No webhooks.")


def remove(
    context: typer.Context,
    session_id: str = SESSION,
    destination: str = typer.Argument(..., help="Its id.", show_default=False),
) -> None:
    """Send nothing to a URL any more."""
    session = session_of(context)
    session.run_durable(lambda durable: bare(durable, session_id).destinations.delete(destination))
    session.output.success({"id": destination, "deleted": True}, f"{destination} removed")


def deliveries(
    context: typer.Context,
    session_id: str = SESSION,
    destination: str = typer.Option("", "--destination", help="Only to this one.", show_default=False),
    status: str = typer.Option("", "--status", help="Only those, such as dead_letter.", show_default=False),
) -> None:
    """List what was sent, newest first."""
    session = session_of(context)

    async def work(durable: OpenComputer) -> list[Delivery]:
        sent = bare(durable, session_id).deliveries
        return list(await sent.list(destination=destination or None, status=status or None, limit=200))

    found = session.run_durable(work)
    rows = [
        [
            each.id,
            each.destination,
            each.event_seq,
            each.status,
            each.attempts,
            each.response_code or "-",
            each.error or "-",
        ]
        for each in found
    ]
    session.output.table([each.raw for each in found], _DELIVERY_HEADERS, rows, "No deliveries.")


def redeliver(
    context: typer.Context,
    session_id: str = SESSION,
    delivery: str = typer.Argument(..., help="Its id.", show_default=False),
) -> None:
    """Send something once more."""
    session = session_of(context)
    again = session.run_durable(lambda durable: bare(durable, session_id).deliveries.redeliver(delivery))
    session.output.success(again.raw, f"{again.id}  {again.status}")


def add_commands(group: typer.Typer) -> None:
    """Add the group within the group."""
    webhooks = typer.Typer(help="Where its events are sent: list, add, rm, deliveries, redeliver.")
    webhooks.command("list")(list_webhooks)
    webhooks.command("add")(add)
    webhooks.command("rm")(remove)
    webhooks.command("deliveries")(deliveries)
    webhooks.command("redeliver")(redeliver)
    group.add_typer(webhooks, name="webhooks")


def _yes(value: bool) -> str:
    return "yes" if value else "no"
