"""`oc secret …`: the secrets of a store. Values go in; no command ever shows one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from opencomputer.cli import text
from opencomputer.cli.commands.secret_store import STORE, id_of, path
from opencomputer.cli.failures import CommandError
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.sdk.control_plane import ControlPlane

_NAME = typer.Argument(
    ..., metavar="NAME", help="Its name, which is the variable's in sandboxes.", show_default=False
)
_HEADERS = ("NAME", "ALLOWED HOSTS")


def set_secret(
    context: typer.Context,
    store: str = STORE,
    name: str = _NAME,
    value: str | None = typer.Argument(
        None,
        metavar="[VALUE]",
        help="Better left out: other programs can see it. It is asked for then.",
        show_default=False,
    ),
    from_stdin: bool = typer.Option(False, "--from-stdin", help="Read the value from standard input."),
    allowed_hosts: str = typer.Option(
        "", metavar="H1,H2", help="The hosts it may be sent to; all permitted ones if none are given."
    ),
) -> None:
    """Set a secret, or replace its value and hosts. Sandboxes that run use the new ones at once."""
    from opencomputer.sdk.answers import json_object
    from opencomputer.sdk.control_plane import Call

    session = session_of(context)
    body = {"value": _value(value, from_stdin=from_stdin), "allowedHosts": text.listed(allowed_hosts)}

    async def work(plane: ControlPlane) -> object:
        return await plane.json(Call("PUT", path(await id_of(plane, store), "secrets", name), json=body))

    answer = json_object(session.run(work))
    session.output.success(
        answer, f"{name} set; running sandboxes that use it now: {answer.get('refreshed')}"
    )
    if answer.get("refreshErrors"):
        session.output.note(f"Sandboxes that could not be told: {answer['refreshErrors']}")


def list_secrets(context: typer.Context, store: str = STORE) -> None:
    """List a store's secrets, by name and without their values."""
    from opencomputer.sdk.answers import json_objects, texts
    from opencomputer.sdk.control_plane import get

    async def work(plane: ControlPlane) -> object:
        return await plane.json(get(path(await id_of(plane, store), "secrets")))

    session = session_of(context)
    answer = json_objects(session.run(work))
    rows = [
        [item.get("name", ""), ", ".join(texts(item, "allowedHosts")) or "all permitted"] for item in answer
    ]
    session.output.table(answer, _HEADERS, rows, "No secrets.")


def delete(context: typer.Context, store: str = STORE, name: str = _NAME) -> None:
    """Delete a secret. Sandboxes that have it keep its use until they end."""
    from opencomputer.sdk.control_plane import Call

    async def work(plane: ControlPlane) -> None:
        await plane.send(Call("DELETE", path(await id_of(plane, store), "secrets", name)))

    session = session_of(context)
    session.run(work)
    session.output.success({"name": name, "deleted": True}, f"{name} deleted")


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Secrets of a store: set, list, delete.")
    group.command("set")(set_secret)
    group.command("list")(list_secrets)
    group.command("ls", hidden=True)(list_secrets)
    group.command("delete")(delete)
    group.command("rm", hidden=True)(delete)
    app.add_typer(group, name="secret")


def _value(given: str | None, *, from_stdin: bool) -> str:
    if given is not None and from_stdin:
        raise CommandError("give the value or --from-stdin, not both")
    if given is None and (from_stdin or not sys.stdin.isatty()):
        given = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    elif given is None:
        given = str(typer.prompt("Value", hide_input=True, err=True))
    if not given:
        raise CommandError("the value is empty")
    return given
