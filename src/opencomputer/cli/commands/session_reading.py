"""`oc session …` for what is read: one session, its result, its turns, its events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import typer

from opencomputer.cli import text
from opencomputer.cli.failures import INTERRUPTED, CommandError
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.cli.session_following import Wanted
    from opencomputer.sdk.durable.client import OpenComputer
    from opencomputer.sdk.durable.events import SessionEvent
    from opencomputer.sdk.durable.session import Session as DurableSession
    from opencomputer.sdk.durable.session_records import SessionData, SessionResult, Turn

    Change = Callable[[DurableSession], Awaitable[DurableSession]]

SESSION = typer.Argument(..., metavar="SESSION", help="Its id.", show_default=False)
LEVELS = ("user", "progress", "internal")
_TURN_HEADERS = ("ID", "STATE", "REASON", "SECONDS", "TOKENS", "COST")
_LEVEL = typer.Option("internal", "--level", help="For whom: user, progress or internal (all).")


def bare(durable: OpenComputer, session_id: str) -> DurableSession:
    """A session by its id, without asking how it stands."""
    from opencomputer.sdk.durable.session import Session as DurableSession
    from opencomputer.sdk.durable.session_records import SessionData

    return DurableSession(durable.connection, SessionData(id=session_id))


def get(context: typer.Context, session_id: str = SESSION) -> None:
    """Show how a session stands."""
    session = session_of(context)

    async def work(durable: OpenComputer) -> SessionData:
        return (await durable.sessions.get(session_id)).data

    found = session.run_durable(work)
    session.output.result(found.raw, text.details(_details(found)))


def result(context: typer.Context, session_id: str = SESSION) -> None:
    """Show how the last turn ended and what the agent had to say."""
    session = session_of(context)

    async def work(durable: OpenComputer) -> SessionResult:
        return await bare(durable, session_id).result()

    found = session.run_durable(work)
    turn = found.last_turn
    value = {
        "last_turn": turn.raw if turn is not None else None,
        "result": found.result.raw if found.result is not None else None,
    }
    if turn is None:
        session.output.result(value, "No turn yet.")
        return
    heading = f"{turn.id}  {turn.state}  {turn.yield_reason or '-'}"
    if turn.error is not None:
        heading += f"\n{turn.error.code}: {turn.error.message}"
    said = "\n".join(text.harmless(line) for line in found.text.split("\n"))
    harmless = "\n".join(text.harmless(line) for line in heading.split("\n"))
    session.output.result(value, f"{harmless}\n{said}".rstrip())


def turns(context: typer.Context, session_id: str = SESSION) -> None:
    """List a session's turns, newest first."""
    session = session_of(context)

    async def work(durable: OpenComputer) -> list[Turn]:
        return [each async for each in await bare(durable, session_id).turns(limit=100)]

    found = session.run_durable(work)
    session.output.table([each.raw for each in found], _TURN_HEADERS, map(_row, found), "No turns.")


def logs(
    context: typer.Context,
    session_id: str = SESSION,
    follow: bool = typer.Option(False, "--follow", "-f", help="Go on until interrupted."),
    after: int = typer.Option(0, "--after", min=0, metavar="SEQ", help="Only those after this one."),
    level: str = _LEVEL,
    type: str = typer.Option("", "--type", help="Only this type, or prefix.*.", show_default=False),
    turn: str = typer.Option("", "--turn", help="Only what this turn did.", show_default=False),
) -> None:
    """Print a session's events, one a line."""
    session = session_of(context)
    if follow and turn:
        raise CommandError("--follow and --turn exclude each other")
    if follow:
        wanted = _wanted(level, type, after)

        async def followed(durable: OpenComputer) -> None:
            from opencomputer.cli.session_following import EventPrinter, follow

            await follow(bare(durable, session_id), wanted, EventPrinter(session.output, plain=True))

        session.run_durable(followed)
        raise typer.Exit(INTERRUPTED)

    async def work(durable: OpenComputer) -> list[SessionEvent]:
        wanted = _wanted(level, type, after)
        page = await bare(durable, session_id).list_events(
            after=after, level=wanted.level, type=wanted.type, turn_id=turn or None, limit=1000
        )
        return [each async for each in page]

    from opencomputer.cli.session_view import log_line

    found = session.run_durable(work)
    session.output.result([each.raw for each in found], "\n".join(map(log_line, found)) or "No events.")


def attach(
    context: typer.Context,
    session_id: str = SESSION,
    level: str = _LEVEL,
    after: int = typer.Option(0, "--after", min=0, metavar="SEQ", help="Only what comes after this."),
) -> None:
    """Watch a session, from its beginning. On a terminal, each line typed is said to it.

    Ctrl-C leaves it; it goes on working.
    """
    session = session_of(context)
    wanted = _wanted(level, "", after)

    async def work(durable: OpenComputer) -> None:
        from opencomputer.cli.session_following import attach

        await attach(bare(durable, session_id), wanted, session.output)

    session.run_durable(work)


def add_commands(group: typer.Typer) -> None:
    """Add these to the group."""
    group.command("get")(get)
    group.command("attach")(attach)
    group.command("logs")(logs)
    group.command("result")(result)
    group.command("turns")(turns)


def _wanted(level: str, type: str, after: int) -> Wanted:
    from opencomputer.cli.session_following import Wanted

    if level not in LEVELS:
        raise CommandError(f"--level takes {', '.join(LEVELS)}")
    return Wanted(level, type or None, after)


def _details(session: SessionData) -> list[tuple[str, object]]:
    snapshot, usage, turn = session.agent_snapshot or {}, session.usage, session.last_turn
    pairs: list[tuple[str, object]] = [
        ("ID", session.id),
        ("Status", session.status),
        ("Agent", f"{session.agent_id} (revision {snapshot.get('revision', '-')})"),
        ("Model", snapshot.get("model", "-")),
        ("Events", session.head),
        ("Last turn", f"{turn.id} {turn.yield_reason or turn.state}" if turn is not None else "-"),
        ("Tokens", usage.tokens if usage is not None and usage.tokens is not None else "-"),
        ("Created", session.created_at),
    ]
    if session.key:
        pairs.append(("Key", session.key))
    if session.origin:
        pairs.append(("Forked from", " ".join(str(value) for value in session.origin.values())))
    return pairs


def _row(turn: Turn) -> list[object]:
    usage = turn.usage
    cost = usage.total_cost_usd if usage is not None else None
    return [
        turn.id,
        turn.state,
        turn.yield_reason or "-",
        "-" if turn.active_seconds is None else f"{turn.active_seconds:.1f}",
        "-" if usage is None or usage.tokens is None else usage.tokens,
        "-" if cost is None else f"${cost:.4f}",
    ]
