"""`oc agent invoke`: give an agent's URL an input."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, cast

import typer

from opencomputer.cli import durable_targets as targets
from opencomputer.cli.failures import CommandError
from opencomputer.cli.options import named, optional
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.sdk.durable.client import OpenComputer
    from opencomputer.sdk.durable.starter_records import Invocation


def invoke(
    context: typer.Context,
    agent: str = named("AGENT", "Its id or name."),
    data: str = optional("--data", "What it is given.", "JSON"),
    file: str = optional("--file", "A file with that.", "FILE"),
    stdin: bool = typer.Option(False, "--stdin", help="Read that from standard input."),
    idempotency_key: str = optional("--idempotency-key", "Once for this key."),
) -> None:
    """Give an agent's URL any JSON to work on, as other programs do. A session starts with it."""
    payload = _payload(data, file, stdin=stdin)
    key = idempotency_key or f"oc-cli-{secrets.token_hex(16)}"
    session = session_of(context)

    async def work(durable: OpenComputer) -> Invocation:
        found = await targets.agent_of(durable, agent)
        return await durable.agents.invoke(found.invoke_url or found.id, payload, idempotency_key=key)

    receipt = session.run_durable(work)
    status = (receipt.session or {}).get("status", "")
    again = ", as asked before" if receipt.replayed else ""
    done = session.output.done(f"{receipt.session_id}  {status}{again}")
    session.output.identified(receipt.raw, [receipt.session_id], done)
    if not session.output.json:
        session.output.note(f"Follow it: oc session attach {receipt.session_id}")
        session.output.note(f"Its result: oc session result {receipt.session_id}")


def add_commands(group: typer.Typer) -> None:
    """Add it to the group."""
    group.command("invoke")(invoke)


def _payload(data: str, file: str, *, stdin: bool) -> object:
    if sum((bool(data), bool(file), stdin)) != 1:
        raise CommandError("pass one of --data, --file and --stdin")
    content = targets.file_text(file) if file else targets.content("-" if stdin else data)
    try:
        return cast(object, json.loads(content))
    except ValueError as error:
        raise CommandError(f"what an agent is given has to be JSON: {error}") from error
