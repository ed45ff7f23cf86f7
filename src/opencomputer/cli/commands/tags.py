"""`oc tags …`: words that usage is counted by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from opencomputer.cli import text
from opencomputer.cli.failures import CommandError
from opencomputer.cli.options import SANDBOX
from opencomputer.cli.session import Session, session_of

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject

_HEADERS = ("KEY", "VALUE")
_KEY_HEADERS = ("KEY", "SANDBOXES", "VALUES")


def get_tags(context: typer.Context, sandbox: str = SANDBOX) -> None:
    """Show a sandbox's tags."""
    from opencomputer.sdk.answers import json_object
    from opencomputer.sdk.control_plane import get

    session = session_of(context)
    answer = session.run_on(sandbox, lambda link: link.plane.json(get(link.path("tags"))))
    _show(session, json_object(answer))


def set_tags(
    context: typer.Context,
    sandbox: str = SANDBOX,
    tags: list[str] | None = typer.Argument(None, metavar="[K=V]...", help="All tags it is to have."),
    clear: bool = typer.Option(False, "--clear", help="It is to have none."),
) -> None:
    """Give a sandbox these tags instead of those it has."""
    from opencomputer.sdk.answers import json_object
    from opencomputer.sdk.control_plane import Call

    wanted = text.assignments(tags or [], "tags")
    if bool(wanted) == clear:
        raise CommandError("name the tags it is to have, or pass --clear")
    session = session_of(context)
    answer = session.run_on(
        sandbox, lambda link: link.plane.json(Call("PUT", link.path("tags"), json=wanted, repeatable=True))
    )
    _show(session, json_object(answer))


def list_keys(context: typer.Context) -> None:
    """List the keys in use, with how many sandboxes have them."""
    from opencomputer.sdk.answers import json_object, json_objects
    from opencomputer.sdk.control_plane import get

    session = session_of(context)
    answer = json_object(session.run(lambda plane: plane.json(get("/tags"))))
    keys = json_objects(answer.get("keys"))
    rows = [[each.get("key", ""), each.get("sandboxCount", 0), each.get("valueCount", 0)] for each in keys]
    session.output.table(keys, _KEY_HEADERS, rows, "No tags.")


def _show(session: Session, answer: JsonObject) -> None:
    from opencomputer.sdk.answers import json_object

    found = json_object(answer.get("tags") or {})
    session.output.table(answer, _HEADERS, [[key, found[key]] for key in sorted(found)], "No tags.")


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Tags of sandboxes: get, set, keys.")
    group.command("get")(get_tags)
    group.command("set")(set_tags)
    group.command("keys")(list_keys)
    app.add_typer(group, name="tags")
