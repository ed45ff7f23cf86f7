"""`oc exec SANDBOX -- COMMAND`, and `oc exec list|attach|kill` for its sessions."""

from __future__ import annotations

import shlex
import sys
import time
from typing import TYPE_CHECKING

import typer

from opencomputer.cli import text
from opencomputer.cli.failures import CommandError, exit_code_of_process
from opencomputer.cli.session import Session, session_of

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.sandbox_link import SandboxLink

_SANDBOX = typer.Argument(..., metavar="SANDBOX", help="The sandbox's id.", show_default=False)
_SESSION = typer.Argument(..., metavar="SESSION", help="The session's id.", show_default=False)
_KILLED = 137
_HEADERS = ("ID", "STATUS", "CLIENTS", "COMMAND")


def run(
    context: typer.Context,
    sandbox: str = _SANDBOX,
    command: list[str] = typer.Argument(None, metavar="COMMAND", help="After --: it and its arguments."),
    cwd: str = typer.Option("", help="The directory to run it in.", show_default=False),
    timeout: int = typer.Option(0, min=0, help="Kill it after so many seconds; 0 for never."),
    env: list[str] = typer.Option([], metavar="K=V", help="A variable for it; repeatable."),
    wait: bool = typer.Option(False, "--wait", help="Print its output when it has ended."),
    detach: bool = typer.Option(False, "--detach", help="Leave it running and print its session's id."),
) -> None:
    """Run a command in a sandbox and follow it, as `oc exec SANDBOX -- COMMAND [ARGS]...`."""
    if wait and detach:
        raise CommandError("--wait and --detach exclude each other")
    if not command:
        raise CommandError("no command given; it comes after --, as in `oc exec SANDBOX -- ls -l`")
    body: JsonObject = {"cmd": command[0], "args": command[1:], "timeout": timeout}
    options = {"cwd": cwd, "envs": text.assignments(env, "--env")}
    body |= {name: value for name, value in options.items() if value}
    session = session_of(context)
    if wait:
        raise typer.Exit(_run_to_the_end(session, sandbox, body))
    created = session.run_on(sandbox, lambda link: _create(link, body)) if detach else None
    if created:
        _tell_how_to_attach(session, sandbox, created)
        return

    async def follow(link: SandboxLink) -> int:
        from opencomputer.cli.following import follow_session

        began = time.monotonic()
        code = await follow_session(link, str((await _create(link, body))["sessionID"]), own=True)
        if code == _KILLED and timeout and time.monotonic() - began >= timeout:
            session.output.note(f"Killed after --timeout {timeout}.")
        return code

    raise typer.Exit(exit_code_of_process(session.run_on(sandbox, follow)))


def attach(context: typer.Context, sandbox: str = _SANDBOX, session_id: str = _SESSION) -> None:
    """Follow a session: what it said before, then what it says."""

    async def follow(link: SandboxLink) -> int:
        from opencomputer.cli.following import follow_session

        return await follow_session(link, session_id)

    raise typer.Exit(exit_code_of_process(session_of(context).run_on(sandbox, follow)))


def list_sessions(context: typer.Context, sandbox: str = _SANDBOX) -> None:
    """List a sandbox's sessions."""
    from opencomputer.sdk.answers import json_objects
    from opencomputer.sdk.control_plane import get

    session = session_of(context)
    answer = json_objects(session.run_on(sandbox, lambda link: link.plane.json(get(link.path("exec")))))
    session.output.table(answer, _HEADERS, [_row(item) for item in answer], "No sessions.")


def kill(
    context: typer.Context,
    sandbox: str = _SANDBOX,
    session_id: str = _SESSION,
    signal: int = typer.Option(9, min=1, max=64, help="The signal's number."),
) -> None:
    """Send a signal to a session."""
    from opencomputer.sdk.exec_session import kill_session

    session = session_of(context)
    session.run_on(sandbox, lambda link: kill_session(link, "exec", session_id, signal))
    value = {"sessionID": session_id, "killed": True, "signal": signal}
    session.output.success(value, f"{session_id} was sent signal {signal}")


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        help="Run a command: `oc exec SANDBOX -- COMMAND [ARGS]...`. Its sessions: list, attach, kill.",
        epilog="Options of a run: oc exec run --help.",
    )
    group.command("run")(run)
    group.command("list")(list_sessions)
    group.command("attach")(attach)
    group.command("kill")(kill)
    app.add_typer(group, name="exec")


async def _create(link: SandboxLink, body: JsonObject) -> JsonObject:
    from opencomputer.sdk.answers import json_object
    from opencomputer.sdk.control_plane import post_once

    return json_object(await link.plane.json(post_once(link.path("exec"), body)))


def _run_to_the_end(session: Session, sandbox: str, body: JsonObject) -> int:
    from opencomputer.sdk.answers import json_object, whole
    from opencomputer.sdk.answers import text as text_of
    from opencomputer.sdk.control_plane import post_once, with_timeout

    async def work(link: SandboxLink) -> JsonObject:
        call = with_timeout(post_once(link.path("exec", "run"), body), None)
        return json_object(await link.plane.json(call))

    answer = session.run_on(sandbox, work)
    if session.output.json:
        session.output.result({name: answer.get(name) for name in ("exitCode", "stdout", "stderr")}, "")
        return 0
    sys.stdout.write(text_of(answer, "stdout"))
    sys.stderr.write(text_of(answer, "stderr"))
    return exit_code_of_process(whole(answer, "exitCode") or 0)


def _tell_how_to_attach(session: Session, sandbox: str, created: JsonObject) -> None:
    session.output.result(created, str(created.get("sessionID")))
    session.output.note(f"Follow it with `oc exec attach {sandbox} {created.get('sessionID')}`.")


def _row(item: JsonObject) -> list[object]:
    from opencomputer.sdk.answers import texts

    return [
        item.get("sessionID", ""),
        "running" if item.get("running") else f"exited ({item.get('exitCode', '?')})",
        item.get("attachedClients", 0),
        shlex.join([str(item.get("command", "")), *texts(item, "args")]),
    ]
