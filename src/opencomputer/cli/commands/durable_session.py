"""`oc session …`: durable sessions."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING

import typer

from opencomputer.cli import durable_targets as targets
from opencomputer.cli import text
from opencomputer.cli.commands import session_reading, session_watches, session_webhooks
from opencomputer.cli.commands.session_reading import SESSION
from opencomputer.cli.failures import CommandError
from opencomputer.cli.options import repeated
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.cli.output import Output
    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.durable.client import OpenComputer
    from opencomputer.sdk.durable.session import Session as DurableSession
    from opencomputer.sdk.durable.session_records import Accepted, SessionData

_HEADERS = ("ID", "STATUS", "AGENT", "CREATED")


def _option(name: str, help: str, metavar: str | None = None) -> str:
    return typer.Option("", name, metavar=metavar, help=help, show_default=False)


def create(
    context: typer.Context,
    agent: str = _option("--agent", "Which agent works in it; or the folder's agent.toml.", "AGENT"),
    input: str = typer.Option(..., "--input", metavar="TEXT|-", help="What it is to do.", show_default=False),
    model: str = _option("--model", "Another model than the agent's.", "PROVIDER/MODEL"),
    revision: str = _option("--revision", "Another revision than the active one."),
    key: str = _option("--key", "One session for ever for this key."),
    metadata: list[str] = typer.Option([], metavar="K=V", help="Kept with it; repeatable."),
    limits: str = _option("--limits", 'Such as {"tokens": 100000}.', "JSON"),
    webhook: str = _option("--webhook", "Where its events are sent.", "URL"),
    idempotency_key: str = _option("--idempotency-key", "Once for this key."),
    source: list[str] = repeated("--source", "A repository it works on", "OWNER/REPO[@REF]"),
    follow: bool = typer.Option(False, "--follow", "-f", help="Show what it does until its first turn ends."),
) -> None:
    """Start a session. It works by itself, whether or not anybody looks."""
    session = session_of(context)
    named = targets.agent_reference(agent)
    said = targets.content(input)
    sources = [_source(each) for each in source]

    async def work(durable: OpenComputer) -> DurableSession:
        return await durable.sessions.create(
            agent=(await targets.agent_of(durable, named)).id,
            input=said,
            model=model or None,
            revision=int(revision) if revision.isdigit() else revision or None,
            key=key or None,
            metadata=text.assignments(metadata, "--metadata") or None,
            limits=targets.numbers(limits, "--limits"),
            webhook=webhook or None,
            sources=sources or None,
            idempotency_key=idempotency_key or None,
        )

    if follow:
        raise typer.Exit(session.run_durable(lambda durable: _followed(work(durable), session.output)))
    made = session.run_durable(work)
    _show_made(session.output, made)
    if not session.output.json:
        session.output.note(f"Follow it: oc session attach {made.id}")


def list_sessions(
    context: typer.Context,
    agent: str = _option("--agent", "Only this agent's.", "AGENT"),
    status: str = _option("--status", "Only those: queued, running, awaiting_input, idle, failed, archived."),
    key: str = _option("--key", "Only the one with this key."),
    limit: int = typer.Option(50, "--limit", min=1, max=100, help="At most so many."),
    cursor: str = _option("--cursor", "Where an earlier list ended."),
) -> None:
    """List sessions, newest first."""
    session = session_of(context)

    async def work(durable: OpenComputer) -> tuple[list[SessionData], str | None]:
        agent_id = (await targets.agent_of(durable, agent)).id if agent else None
        page = await durable.sessions.list(
            agent=agent_id, status=status or None, key=key or None, limit=limit, cursor=cursor or None
        )
        return list(page), page.next_cursor

    found, following = session.run_durable(work)
    rows = [[each.id, each.status, each.agent_id, each.created_at] for each in found]
    shown = text.table(_HEADERS, rows) if rows else "No sessions."
    session.output.identified([each.raw for each in found], [each.id for each in found], shown)
    if following and not session.output.json:
        session.output.note(f"There are more: --cursor {following}")


def steer(
    context: typer.Context,
    session_id: str = SESSION,
    words: str = typer.Argument(..., metavar="TEXT|-", help="What it is told.", show_default=False),
    idempotency_key: str = _option("--idempotency-key", "Once for this key."),
) -> None:
    """Say something to a session: at once if it rests, else for its next turn."""
    session = session_of(context)
    said = targets.content(words)

    async def work(durable: OpenComputer) -> Accepted:
        return await session_reading.bare(durable, session_id).steer(
            said, idempotency_key=idempotency_key or None
        )

    accepted = session.run_durable(work)
    session.output.success(
        {"event": {"id": accepted.id, "seq": accepted.seq}}, f"{session_id} was told: event {accepted.seq}"
    )


def cancel(context: typer.Context, session_id: str = SESSION) -> None:
    """Ask the turn that runs to stop."""
    _changed(context, session_id, "asked to stop", lambda durable: durable.cancel())


def archive(context: typer.Context, session_id: str = SESSION) -> None:
    """Close a session for writing. It can be read for ever."""
    _changed(context, session_id, "archived", lambda durable: durable.archive())


def rewind(
    context: typer.Context,
    session_id: str = SESSION,
    turn: str = typer.Argument(..., metavar="TURN", help="The id of a turn.", show_default=False),
) -> None:
    """Bring back files, processes and transcript of the end of a turn."""
    _changed(context, session_id, f"is as after {turn}", lambda durable: durable.rewind(turn))


def fork(
    context: typer.Context,
    session_id: str = SESSION,
    turn: str = typer.Argument("", metavar="[TURN]", help="The id of a turn; the newest by default."),
) -> None:
    """Start a session that goes on from the end of a turn of another one."""
    session = session_of(context)

    async def work(durable: OpenComputer) -> DurableSession:
        return await session_reading.bare(durable, session_id).fork(turn or None)

    _show_made(session.output, session.run_durable(work))


def token(
    context: typer.Context,
    session_id: str = SESSION,
    scope: str = typer.Option("read,steer", "--scope", help="What it permits: read, steer."),
    ttl: int = typer.Option(3600, "--ttl", help="For how many seconds: 60 to 86400."),
) -> None:
    """Make a token for one session, for a browser, say."""
    session = session_of(context)
    scopes = text.listed(scope)
    if not scopes or not {"read", "steer"}.issuperset(scopes):
        raise CommandError("--scope takes read, steer, or both with a comma")

    async def work(durable: OpenComputer) -> str:
        made = session_reading.bare(durable, session_id)
        return await made.mint_client_token(scopes, ttl_seconds=ttl)

    minted = session.run_durable(work)
    session.output.result({"client_token": minted}, text.harmless(minted))


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Durable sessions: create, list, attach, logs, steer, result, …")
    group.command("create")(create)
    group.command("start", hidden=True)(create)
    group.command("list")(list_sessions)
    group.command("ls", hidden=True)(list_sessions)
    session_reading.add_commands(group)
    group.command("steer")(steer)
    group.command("send", hidden=True)(steer)
    group.command("cancel")(cancel)
    group.command("archive")(archive)
    group.command("rewind")(rewind)
    group.command("fork")(fork)
    group.command("token")(token)
    session_webhooks.add_commands(group)
    session_watches.add_commands(group)
    app.add_typer(group, name="session")


def _source(given: str) -> JsonObject:
    repository, _, ref = given.partition("@")
    owner, _, name = repository.partition("/")
    if not (owner and name) and not repository.startswith("repo_"):
        raise CommandError(f"--source takes OWNER/REPO or OWNER/REPO@REF, not {given!r}")
    return {"repo": repository, "ref": ref or "HEAD"}


async def _followed(making: Coroutine[object, object, DurableSession], output: Output) -> int:
    from opencomputer.cli.session_following import follow_first_turn

    made = await making
    output.note(made.id)
    return await follow_first_turn(made, output)


def _show_made(output: Output, made: DurableSession) -> None:
    output.identified(made.data.raw, [made.id], output.done(f"{made.id}  {made.status}"))


def _changed(context: typer.Context, session_id: str, done: str, change: session_reading.Change) -> None:
    session = session_of(context)
    changed = session.run_durable(lambda durable: change(session_reading.bare(durable, session_id)))
    session.output.success(changed.data.raw, f"{session_id} {done} ({changed.status})")
