"""`oc session watch`, `watches` and `unwatch`: pull requests that wake a session."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import typer

from opencomputer.cli.commands.session_reading import SESSION, bare
from opencomputer.cli.options import named, optional
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.sdk.durable.client import OpenComputer
    from opencomputer.sdk.durable.session_records import Watch

_HEADERS = ("ID", "REPO", "PR", "WAKE ON", "STATUS", "INTENT")
_INTENT_COLUMNS = 40


class WakeOn(StrEnum):
    """What has to happen."""

    CHECKS = "checks"
    REVIEW = "review"
    COMMENT = "comment"
    MERGE = "merge"


def watch(
    context: typer.Context,
    session_id: str = SESSION,
    wake_on: WakeOn = typer.Option(WakeOn.CHECKS, "--wake-on", help="What has to happen."),
    repo: str = optional("--repo", "Whose pull request; the session's newest by default.", "OWNER/REPO"),
    pr: int = typer.Option(0, "--pr", min=1, help="Its number.", show_default=False),
    intent: str = optional("--intent", "What the session is to do then."),
) -> None:
    """Wake a session when something happens to a pull request that it has opened."""
    session = session_of(context)

    async def work(durable: OpenComputer) -> Watch:
        watches = bare(durable, session_id).watches
        return await watches.create(
            repo=repo or None, pr=pr or None, wake_on=wake_on.value, intent=intent or None
        )

    made = session.run_durable(work)
    session.output.success(made.raw, f"{made.repo}#{made.pr}  {made.wake_on}  {made.id}")


def watches(context: typer.Context, session_id: str = SESSION) -> None:
    """List what wakes a session."""
    session = session_of(context)

    async def work(durable: OpenComputer) -> list[Watch]:
        return list(await bare(durable, session_id).watches.list())

    found = session.run_durable(work)
    session.output.table([each.raw for each in found], _HEADERS, map(_row, found), "No watches.")


def unwatch(
    context: typer.Context, session_id: str = SESSION, watch_id: str = named("WATCH", "Its id.")
) -> None:
    """Let something wake a session no more."""
    session = session_of(context)
    session.run_durable(lambda durable: bare(durable, session_id).watches.delete(watch_id))
    session.output.success({"id": watch_id, "deleted": True}, f"{watch_id} removed")


def add_commands(group: typer.Typer) -> None:
    """Add these to the group."""
    group.command("watch")(watch)
    group.command("watches")(watches)
    group.command("watch-list", hidden=True)(watches)
    group.command("unwatch")(unwatch)


def _row(watch: Watch) -> list[object]:
    intent = watch.intent or "-"
    cut = intent if len(intent) <= _INTENT_COLUMNS else f"{intent[: _INTENT_COLUMNS - 1]}…"
    return [watch.id, watch.repo or "-", watch.pr or "-", watch.wake_on, watch.status, cut]
