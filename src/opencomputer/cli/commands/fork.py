"""`oc fork`: more sandboxes that go on from where one is now."""

from __future__ import annotations

import typer

from opencomputer.cli import text
from opencomputer.cli.options import optional
from opencomputer.cli.session import session_of

_HEADERS = ("ID", "STATUS", "PROCESSES")


def fork(
    context: typer.Context,
    sandbox: str = typer.Argument(..., metavar="SANDBOX", help="The sandbox's id.", show_default=False),
    count: int = typer.Option(1, "--count", "-n", min=1, help="How many."),
    timeout: int = typer.Option(0, min=0, help="Idle seconds until they are put to sleep; 0 for never."),
    env: list[str] = typer.Option([], metavar="K=V", help="A variable of later processes; repeatable."),
    metadata: list[str] = typer.Option([], metavar="K=V", help="A note of your own; repeatable."),
    secret_store: str = optional("--secret-store", "A secret store besides those it has.", "NAME"),
) -> None:
    """Make copies of a running sandbox. They go on from where it is now, processes included."""
    from opencomputer.sdk import forks
    from opencomputer.sdk.answers import json_objects

    options = forks.ForkOptions(
        timeout=timeout,
        envs=text.assignments(env, "--env") or None,
        metadata=text.assignments(metadata, "--metadata") or None,
        secret_store=secret_store or None,
    )
    session = session_of(context)
    made = json_objects(
        session.run_on(sandbox, lambda link: link.plane.json(forks.fork(link, count, options)))
    )
    rows = [
        [each.get("sandboxID", ""), each.get("status", ""), "go on" if each.get("memoryRestored") else "lost"]
        for each in made
    ]
    session.output.table(made, _HEADERS, rows, "No forks.")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fork")(fork)
