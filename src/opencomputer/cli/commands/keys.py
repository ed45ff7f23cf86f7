"""`oc keys …`: the API keys of the organisation."""

from __future__ import annotations

import typer

from opencomputer.cli import text
from opencomputer.cli.session import session_of
from opencomputer.sdk.paths import path_of

_HEADERS = ("ID", "NAME", "PREFIX", "STATUS", "CREATED", "LAST USED")


def create(
    context: typer.Context,
    name: str = typer.Argument(..., help="What the key is for.", show_default=False),
) -> None:
    """Make a key. It is shown this once."""
    from opencomputer.sdk.answers import json_object
    from opencomputer.sdk.control_plane import Call

    session = session_of(context)
    call = Call("POST", "/api-keys", json={"name": name})
    answer = json_object(session.run(lambda plane: plane.json(call)))
    pairs = [("ID", answer.get("id", "")), ("Name", answer.get("name", "")), ("Key", answer.get("key", ""))]
    session.output.identified(answer, [answer.get("key")], text.details(pairs))
    session.output.note("The key is not shown again.")


def list_keys(context: typer.Context) -> None:
    """List the keys, without their secrets."""
    from opencomputer.sdk.answers import json_objects
    from opencomputer.sdk.control_plane import get

    session = session_of(context)
    answer = json_objects(session.run(lambda plane: plane.json(get("/api-keys"))))
    rows = [
        [
            item.get("id", ""),
            item.get("name", ""),
            item.get("prefix", ""),
            "revoked" if item.get("revokedAt") else "active",
            item.get("createdAt") or "-",
            item.get("lastUsedAt") or "never",
        ]
        for item in answer
    ]
    session.output.table(answer, _HEADERS, rows, "No keys.")


def revoke(
    context: typer.Context,
    key: str = typer.Argument(..., metavar="ID", help="The key's id.", show_default=False),
) -> None:
    """Revoke a key. It stops working at once."""
    from opencomputer.sdk.control_plane import Call

    session = session_of(context)
    call = Call("DELETE", path_of("api-keys", key))
    session.run(lambda plane: plane.send(call))
    session.output.success({"id": key, "revoked": True}, f"{key} revoked")


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="API keys: create, list, revoke.")
    group.command("create")(create)
    group.command("list")(list_keys)
    group.command("ls", hidden=True)(list_keys)
    group.command("revoke")(revoke)
    app.add_typer(group, name="keys")
