"""`oc secret-store …`: named sets of secrets, and the hosts that sandboxes with them may reach."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import typer

from opencomputer.cli import text
from opencomputer.cli.failures import REFUSED, CommandError
from opencomputer.cli.session import session_of
from opencomputer.sdk.paths import path_of

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.control_plane import ControlPlane

STORE = typer.Argument(..., metavar="STORE", help="The store's name or id.", show_default=False)
_HOSTS = typer.Option(
    None, "--egress-allowlist", metavar="H1,H2", help="The hosts its sandboxes may reach.", show_default=False
)
_HEADERS = ("ID", "NAME", "EGRESS ALLOWLIST", "CREATED")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


def create(
    context: typer.Context,
    name: str = typer.Option(..., "--name", help="Its name, by which sandboxes name it.", show_default=False),
    egress_allowlist: str | None = _HOSTS,
) -> None:
    """Make a store without secrets."""
    from opencomputer.sdk.answers import json_object
    from opencomputer.sdk.control_plane import Call

    session = session_of(context)
    body = {"name": name, "egressAllowlist": text.listed(egress_allowlist or "")}
    answer = json_object(session.run(lambda plane: plane.json(Call("POST", "/secret-stores", json=body))))
    session.output.success(answer, f"{answer.get('id')} {answer.get('name')}")


def list_stores(context: typer.Context) -> None:
    """List the stores, by name."""
    from opencomputer.sdk.answers import json_objects
    from opencomputer.sdk.control_plane import get

    session = session_of(context)
    answer = json_objects(session.run(lambda plane: plane.json(get("/secret-stores"))))
    rows = [
        [item.get("id", ""), item.get("name", ""), _hosts(item), item.get("createdAt") or "-"]
        for item in answer
    ]
    session.output.table(answer, _HEADERS, rows, "No secret stores.")


def get_store(context: typer.Context, store: str = STORE) -> None:
    """Show one store."""
    from opencomputer.sdk.answers import json_object
    from opencomputer.sdk.control_plane import get

    async def work(plane: ControlPlane) -> object:
        return await plane.json(get(path(await id_of(plane, store))))

    session = session_of(context)
    answer = json_object(session.run(work))
    pairs = [
        ("ID", answer.get("id", "")),
        ("Name", answer.get("name", "")),
        ("Egress allowlist", _hosts(answer)),
        ("Created", answer.get("createdAt", "")),
        ("Updated", answer.get("updatedAt", "")),
    ]
    session.output.result(answer, text.details(pairs))


def update(
    context: typer.Context,
    store: str = STORE,
    name: str | None = typer.Option(None, "--name", help="Its new name.", show_default=False),
    egress_allowlist: str | None = _HOSTS,
) -> None:
    """Change a store; an empty list of hosts clears the one it has. Sandboxes that run follow at once."""
    from opencomputer.sdk.answers import json_object
    from opencomputer.sdk.control_plane import Call

    session = session_of(context)
    hosts = None if egress_allowlist is None else text.listed(egress_allowlist)
    given = {"name": name, "egressAllowlist": hosts}
    body = {key: value for key, value in given.items() if value is not None}
    if not body:
        raise CommandError("give --name or --egress-allowlist: there is nothing to change")

    async def work(plane: ControlPlane) -> object:
        return await plane.json(Call("PUT", path(await id_of(plane, store)), json=body))

    answer = json_object(session.run(work))
    session.output.success(answer, f"{answer.get('id')} {answer.get('name')} updated")


def delete(context: typer.Context, store: str = STORE) -> None:
    """Delete a store and its secrets. Sandboxes that have it keep its use until they end."""
    from opencomputer.sdk.control_plane import Call

    async def work(plane: ControlPlane) -> str:
        store_id = await id_of(plane, store)
        await plane.send(Call("DELETE", path(store_id)))
        return store_id

    session = session_of(context)
    session.output.success({"id": session.run(work), "deleted": True}, f"{store} deleted")


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Secret stores: create, list, get, update, delete.")
    group.command("create")(create)
    group.command("list")(list_stores)
    group.command("ls", hidden=True)(list_stores)
    group.command("get")(get_store)
    group.command("update")(update)
    group.command("delete")(delete)
    app.add_typer(group, name="secret-store")


def path(*parts: str) -> str:
    """Where a store, by its id, or something in it is."""
    return path_of("secret-stores", *parts)


async def id_of(plane: ControlPlane, store: str) -> str:
    """The id of the store that is meant. What has no form of an id is a name, which no two stores share."""
    if not store or _ID.fullmatch(store):
        return store
    from opencomputer.sdk.answers import json_objects, required_text
    from opencomputer.sdk.control_plane import get

    for known in json_objects(await plane.json(get("/secret-stores"))):
        if store in (known.get("name"), known.get("id")):
            return required_text(known, "id")
    raise CommandError(
        f"no secret store has the name or id {store!r}",
        REFUSED,
        hint="see what is there: oc secret-store list",
    )


def _hosts(item: JsonObject) -> str:
    from opencomputer.sdk.answers import texts

    return ", ".join(texts(item, "egressAllowlist")) or "any"
