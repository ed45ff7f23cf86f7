"""`oc agent secret …`: secrets that the program of an agent has, from its next deployment on."""

from __future__ import annotations

import sys

import typer

from opencomputer.cli import durable_targets as targets
from opencomputer.cli.commands.durable_agent import AGENT
from opencomputer.cli.failures import CommandError
from opencomputer.cli.options import named
from opencomputer.cli.session import session_of

_NAME = named("NAME", "The variable's name.")
_HEADERS = ("NAME", "LAST4", "UPDATED")


def list_secrets(context: typer.Context, agent: str = AGENT) -> None:
    """List an agent's secrets, without their values."""
    from opencomputer.cli import durable_calls
    from opencomputer.sdk.answers import json_objects

    session = session_of(context)
    answer = durable_calls.call(session, targets.agent_reference(agent), "GET", "secrets")
    found = json_objects(answer.get("data"))
    rows = [[each.get("name", ""), each.get("last4") or "-", each.get("updated_at") or "-"] for each in found]
    session.output.table(found, _HEADERS, rows, "No secrets.")


def set_secret(
    context: typer.Context,
    name: str = _NAME,
    from_stdin: bool = typer.Option(
        False, "--from-stdin", help="Read the value from standard input; it is asked for otherwise."
    ),
    agent: str = AGENT,
) -> None:
    """Set a secret of an agent. Its program has it from the next deployment on."""
    from opencomputer.cli import durable_calls

    session = session_of(context)
    if from_stdin or not sys.stdin.isatty():
        value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    else:
        value = str(typer.prompt("Value", hide_input=True, err=True))
    if not value:
        raise CommandError("the value is empty")
    reference = targets.agent_reference(agent)
    answer = durable_calls.call(session, reference, "PUT", "secrets", name, json={"value": value})
    session.output.success(answer, f"{name} set")
    if answer.get("deployment_required"):
        session.output.note("It takes effect with the next deployment: oc agent deploy")


def delete(context: typer.Context, name: str = _NAME, agent: str = AGENT) -> None:
    """Delete a secret of an agent."""
    from opencomputer.cli import durable_calls

    session = session_of(context)
    durable_calls.call(session, targets.agent_reference(agent), "DELETE", "secrets", name)
    session.output.success({"name": name, "deleted": True}, f"{name} deleted")


def add_commands(group: typer.Typer) -> None:
    """Add these to the group."""
    secret = typer.Typer(help="Secrets of an agent's program: list, set, delete.")
    secret.command("list")(list_secrets)
    secret.command("ls", hidden=True)(list_secrets)
    secret.command("set")(set_secret)
    secret.command("delete")(delete)
    secret.command("rm", hidden=True)(delete)
    group.add_typer(secret, name="secret")
