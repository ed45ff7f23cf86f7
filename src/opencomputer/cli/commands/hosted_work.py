"""`oc agent …` for what hosted agents do: messages, sessions, instances, events and logs."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import typer

from opencomputer.cli import durable_targets as targets
from opencomputer.cli import text
from opencomputer.cli.commands.hosted_agent import HOSTED
from opencomputer.cli.failures import SERVER_FAILURE, CommandError
from opencomputer.cli.options import named, optional
from opencomputer.cli.session import Session, session_of

if TYPE_CHECKING:
    from opencomputer.cli.output import Output
    from opencomputer.sdk.hosted.client import HostedAgents
    from opencomputer.sdk.hosted.records import HostedEvent, HostedResult, HostedSession, Operation, ReplyPart

POLL_SECONDS = 2.0
_INSTANCE = named("INSTANCE", "Its id.")
_OF_INSTANCE = optional("--instance", "Which instance; the running one by default.", "INSTANCE")
_EVENT_HEADERS = ("TIMESTAMP", "TYPE", "PHASE", "MESSAGE")
_OPERATION_HEADERS = ("ID", "KIND", "STATE", "PHASE", "CREATED")
_INSTANCE_HEADERS = ("ID", "STATUS", "SANDBOX", "CREATED")
_LEAVING = frozenset({":exit", ":quit"})


def events(
    context: typer.Context,
    agent: str = HOSTED,
    limit: int = typer.Option(50, "--limit", min=1, max=200, help="At most so many."),
    before: str = optional("--before", "Only what happened before.", "TIME"),
) -> None:
    """List what happened to a hosted agent, newest first."""
    session = session_of(context)

    async def work(hosted: HostedAgents) -> list[HostedEvent]:
        return list(await hosted.events(agent, limit=limit, before=before or None))

    found = session.run_hosted(work)
    rows = [[each.at or "-", each.type, each.phase or "-", each.message] for each in found]
    session.output.table([each.raw for each in found], _EVENT_HEADERS, rows, "No events.")


def operations(
    context: typer.Context,
    agent: str = HOSTED,
    operation: str = typer.Argument("", metavar="[OPERATION]", help="Only this one.", show_default=False),
) -> None:
    """List what the server did to a hosted agent in the background, newest first."""
    session = session_of(context)
    if operation:
        one = session.run_hosted(lambda hosted: hosted.get_operation(agent, operation))
        pairs = [
            *(("ID", one.id), ("Kind", one.kind), ("State", one.outcome), ("Phase", one.phase or "-")),
            *(("Message", one.message or "-"), ("Created", one.created_at or "-")),
        ]
        session.output.result(one.raw, text.details(pairs))
        return

    async def work(hosted: HostedAgents) -> list[Operation]:
        return list(await hosted.operations(agent))

    found = session.run_hosted(work)
    rows = [[each.id, each.kind, each.outcome, each.phase or "-", each.created_at or "-"] for each in found]
    session.output.table([each.raw for each in found], _OPERATION_HEADERS, rows, "No operations.")


def restart(context: typer.Context, agent: str = HOSTED) -> None:
    """Start a hosted agent's program again. Changed secrets are seen from then on."""
    session = session_of(context)
    operation = session.run_hosted(lambda hosted: hosted.restart(agent))
    value = operation.raw if operation is not None else {"id": agent, "restarted": True}
    session.output.success(value, f"{agent} starts again")


def logs(
    context: typer.Context,
    agent: str = HOSTED,
    tail: int = typer.Option(300, "--tail", min=1, help="The last so many lines."),
) -> None:
    """Print the end of the log of a hosted agent's program."""
    session = session_of(context)
    found = session.run_hosted(lambda hosted: hosted.logs(agent, tail=tail))
    lines = "\n".join(text.harmless(line) for line in found.content.rstrip("\n").split("\n"))
    session.output.result(found.raw, lines or "Nothing was logged.")


def list_instances(context: typer.Context, agent: str = HOSTED) -> None:
    """List a hosted agent's instances."""
    session = session_of(context)
    found = session.run_hosted(lambda hosted: hosted.list_instances(agent))
    rows = [[each.id, each.status, each.sandbox_id or "-", each.created_at or "-"] for each in found]
    session.output.table([each.raw for each in found], _INSTANCE_HEADERS, rows, "No instances.")


def create_instance(
    context: typer.Context,
    agent: str = HOSTED,
    metadata: list[str] = typer.Option([], metavar="K=V", help="For finding it again; repeatable."),
) -> None:
    """Make another instance of a hosted agent."""
    session = session_of(context)
    kept = text.assignments(metadata, "--metadata")
    made = session.run_hosted(lambda hosted: hosted.create_instance(agent, metadata=kept or None))
    session.output.success(made.raw, f"{made.id} {made.status}")


def get_instance(context: typer.Context, agent: str = HOSTED, instance: str = _INSTANCE) -> None:
    """Show an instance of a hosted agent."""
    session = session_of(context)
    found = session.run_hosted(lambda hosted: hosted.get_instance(agent, instance))
    pairs = [
        *(("ID", found.id), ("Status", found.status), ("Sandbox", found.sandbox_id or "-")),
        ("Metadata", ", ".join(f"{key}={value}" for key, value in found.metadata.items()) or "-"),
        ("Created", found.created_at or "-"),
    ]
    session.output.result(found.raw, text.details(pairs))


def delete_instance(context: typer.Context, agent: str = HOSTED, instance: str = _INSTANCE) -> None:
    """End an instance of a hosted agent, and its sandbox."""
    session = session_of(context)
    session.run_hosted(lambda hosted: hosted.delete_instance(agent, instance))
    session.output.success({"id": instance, "deleted": True}, f"{instance} deleted")


def send(
    context: typer.Context,
    agent: str = HOSTED,
    words: str = typer.Argument(
        "-", metavar="[TEXT]", help="What it is told; - reads it.", show_default=False
    ),
    conversation: str = optional("--conversation", "Which conversation goes on.", "ID"),
    instance: str = _OF_INSTANCE,
) -> None:
    """Say something to a hosted agent and print its reply."""
    session = session_of(context)
    said = targets.content(words)
    if not said.strip():
        raise CommandError("there is nothing to say")

    async def work(hosted: HostedAgents) -> _Reply:
        where = instance or await _running(hosted, agent)
        parts = hosted.send_message(agent, where, said, conversation_id=conversation or None)
        return await _told(parts, session.output)

    reply = session.run_hosted(work)
    if session.output.json:
        value = {"content": reply.content, "conversation_id": reply.conversation or conversation or None}
        session.output.result(value, "")


def chat(context: typer.Context, agent: str = HOSTED, instance: str = _OF_INSTANCE) -> None:
    """Talk with a hosted agent, line by line. `:exit`, `:quit` or the end of input leaves."""
    session = session_of(context)

    async def work(hosted: HostedAgents) -> None:
        where = instance or await _running(hosted, agent)
        said: list[dict[str, object]] = []
        while (line := _next_line()) is not None:
            said.append({"role": "user", "content": line})
            print("bot> ", end="", file=sys.stderr, flush=True)
            reply = await _told(hosted.send_message(agent, where, messages=said), session.output)
            said.append({"role": "assistant", "content": reply.content})

    if session.output.json:
        raise CommandError("a conversation is no JSON; see `oc agent send`")
    session.run_hosted(work)


def run_session(session: Session, agent: str, given: str, *, wait: bool) -> None:
    """Give a hosted agent a piece of work in a sandbox of its own."""
    value = _input(given)

    async def work(hosted: HostedAgents) -> tuple[HostedSession, HostedResult | None]:
        import asyncio

        made = await hosted.create_session(agent, value)
        if not wait:
            return made, None
        while made.status not in ("completed", "failed"):
            await asyncio.sleep(POLL_SECONDS)
            made = await hosted.get_session(agent, made.id)
        if made.status == "failed":
            code = f" with exit code {made.exit_code}" if made.exit_code is not None else ""
            raise CommandError(f"{made.id} failed{code}{f': {made.error}' if made.error else ''}")
        return made, await hosted.get_result(agent, made.id)

    made, result = session.run_hosted(work)
    if result is None:
        session.output.success(made.raw, f"{made.id} {made.status}")
    else:
        session.output.result(result.raw, json.dumps(result.data, indent=2, ensure_ascii=True))


def add_commands(group: typer.Typer) -> None:
    """Add these to the group."""
    group.command("send")(send)
    group.command("chat")(chat)
    group.command("events")(events)
    group.command("operations")(operations)
    group.command("restart")(restart)
    group.command("logs")(logs)
    instances = typer.Typer(
        help="Instances of hosted agents: `oc agent instances AGENT`, create, get, delete."
    )
    instances.command("list")(list_instances)
    instances.command("create")(create_instance)
    instances.command("get")(get_instance)
    instances.command("delete")(delete_instance)
    group.add_typer(instances, name="instances")


async def _running(hosted: HostedAgents, agent: str) -> str:
    found = await hosted.list_instances(agent)
    awake = [each.id for each in found if each.status == "running"]
    asleep = [each.id for each in found if each.status in ("hibernated", "creating")]
    if not (awake or asleep):
        raise CommandError(f"{agent} has no instance; `oc agent instances create {agent}` makes one")
    return (awake or asleep)[0]


@dataclass
class _Reply:
    content: str = ""
    conversation: str = ""


async def _told(parts: AsyncIterator[ReplyPart], output: Output) -> _Reply:
    """The reply, which is printed as it comes."""
    reply = _Reply()
    async for part in parts:
        if part.type == "error":
            raise CommandError(part.message or part.code or "the agent could not answer", SERVER_FAILURE)
        reply.content += part.content
        reply.conversation = part.conversation_id or reply.conversation
        if not output.json and part.content:
            harmless = "\n".join(text.harmless(line) for line in part.content.split("\n"))
            print(harmless, end="", flush=True)
    if not output.json:
        print(flush=True)
    return reply


def _next_line() -> str | None:
    """What is typed next, None when the person leaves."""
    while True:
        print("you> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line or line.strip() in _LEAVING:
            return None
        if line.strip():
            return line.rstrip("\n")


def _input(given: str) -> object:
    content = targets.file_text(given[1:]) if given.startswith("@") else targets.content(given)
    try:
        return cast(object, json.loads(content)) if content else None
    except ValueError as error:
        raise CommandError(f"--input takes JSON, or @ and a file that holds some: {error}") from error
