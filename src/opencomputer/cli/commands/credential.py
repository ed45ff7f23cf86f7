"""`oc credential …`: the keys that agents use for their models."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from opencomputer.cli.failures import CommandError
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.sdk.durable.agent_records import Credential
    from opencomputer.sdk.durable.client import OpenComputer

_HEADERS = ("ID", "PROVIDER", "NAME", "KEY", "DEFAULT", "CREATED")
_CREDENTIAL = typer.Argument(..., metavar="CREDENTIAL", help="Its id.", show_default=False)
_KEY = typer.Option(
    "-",
    "--key",
    metavar="KEY|-",
    help="The key; - reads it, so that it is in no history.",
    show_default=False,
)


def add(
    context: typer.Context,
    provider: str = typer.Option("anthropic", "--provider", help="Whose key it is: anthropic or openai."),
    key: str = _KEY,
    name: str = typer.Option("", "--name", help="What it is called.", show_default=False),
    default: bool = typer.Option(False, "--default", help="For agents that have none of their own."),
) -> None:
    """Keep a key. It is never shown again."""
    session = session_of(context)
    value = _key(key)

    async def work(durable: OpenComputer) -> Credential:
        return await durable.credentials.create(
            key=value, provider=provider, name=name or None, is_default=default or None
        )

    made = session.run_durable(work)
    session.output.success(made.raw, f"{made.id}  {made.provider}  …{made.last4}")


def list_credentials(context: typer.Context) -> None:
    """List the keys, by their last characters."""
    session = session_of(context)

    async def work(durable: OpenComputer) -> list[Credential]:
        return list(await durable.credentials.list())

    found = session.run_durable(work)
    rows = [[*_row(each), each.created_at] for each in found]
    session.output.table([each.raw for each in found], _HEADERS, rows, "No credentials.")


def rotate(context: typer.Context, credential: str = _CREDENTIAL, key: str = _KEY) -> None:
    """Replace a key, also for sessions that run."""
    session = session_of(context)
    value = _key(key)
    changed = session.run_durable(lambda durable: durable.credentials.rotate(credential, value))
    session.output.success(changed.raw, f"{changed.id}  {changed.provider}  …{changed.last4}")


def set_default(context: typer.Context, credential: str = _CREDENTIAL) -> None:
    """Use this key for agents that have none of their own."""
    session = session_of(context)
    changed = session.run_durable(lambda durable: durable.credentials.set_default(credential))
    session.output.success(changed.raw, f"{changed.id} is the default for {changed.provider}")


def remove(context: typer.Context, credential: str = _CREDENTIAL) -> None:
    """Forget a key. Sessions that use it fail at their next turn."""
    session = session_of(context)
    session.run_durable(lambda durable: durable.credentials.delete(credential))
    session.output.success({"id": credential, "deleted": True}, f"{credential} removed")


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Keys for models: add, list, rotate, set-default, remove.")
    group.command("add")(add)
    group.command("list")(list_credentials)
    group.command("ls", hidden=True)(list_credentials)
    group.command("rotate")(rotate)
    group.command("set-default")(set_default)
    group.command("remove")(remove)
    app.add_typer(group, name="credential")


def _row(each: Credential) -> list[str]:
    return [each.id, each.provider, each.name or "-", f"…{each.last4}", "*" if each.is_default else ""]


def _key(given: str) -> str:
    if given != "-":
        return given
    key = typer.prompt("Key", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline()
    if not (stripped := str(key).strip()):
        raise CommandError("the key is empty")
    return stripped
