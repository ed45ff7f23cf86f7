"""`oc snapshot …`: images built ahead, under a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from opencomputer.cli import text
from opencomputer.cli.commands.image import FILE, follow_build, manifest_of
from opencomputer.cli.session import session_of
from opencomputer.sdk.paths import path_of

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.control_plane import ControlPlane

_NAME = typer.Argument(..., metavar="NAME", help="The snapshot's name.", show_default=False)
_HEADERS = ("NAME", "STATUS", "CHECKPOINT", "LAST USED", "CREATED")


def create(
    context: typer.Context,
    name: str = _NAME,
    file: str = FILE,
    wait: bool = typer.Option(True, "--wait/--no-wait", help="Return when it is ready, or at once."),
) -> None:
    """Build an image and keep it under a name."""
    session = session_of(context)
    body = {"name": name, "image": manifest_of(file)}

    async def work(plane: ControlPlane) -> JsonObject:
        from opencomputer.sdk import answers
        from opencomputer.sdk.control_plane import Call

        call = Call("POST", "/snapshots", json=body, params={} if wait else {"async": "1"})
        if wait:
            return await follow_build(plane, call, session.output)
        return answers.json_object(await plane.json(call))

    answer = session.run(work)
    session.output.success(answer, f"{name} {answer.get('status')}")


def list_snapshots(context: typer.Context) -> None:
    """List the snapshots, newest first."""
    from opencomputer.sdk.answers import json_objects
    from opencomputer.sdk.control_plane import get

    session = session_of(context)
    answer = json_objects(session.run(lambda plane: plane.json(get("/snapshots"))))
    rows = [
        [
            item.get("name", ""),
            item.get("status", ""),
            item.get("checkpointId") or "-",
            item.get("lastUsedAt") or "never",
            item.get("createdAt") or "-",
        ]
        for item in answer
    ]
    session.output.table(answer, _HEADERS, rows, "No snapshots.")


def get_snapshot(context: typer.Context, name: str = _NAME) -> None:
    """Show one snapshot."""
    from opencomputer.sdk.answers import json_object
    from opencomputer.sdk.control_plane import get

    session = session_of(context)
    answer = json_object(session.run(lambda plane: plane.json(get(_path(name)))))
    pairs = [
        ("Name", answer.get("name", "")),
        ("Status", answer.get("status", "")),
        ("Error", answer.get("error", "")),
        ("ID", answer.get("id", "")),
        ("Content", answer.get("contentHash", "")),
        ("Checkpoint", answer.get("checkpointId", "")),
        ("Created", answer.get("createdAt", "")),
        ("Last used", answer.get("lastUsedAt", "")),
    ]
    session.output.result(answer, text.details([(label, value) for label, value in pairs if value]))


def delete(context: typer.Context, name: str = _NAME) -> None:
    """Delete a snapshot. Sandboxes made from it go on."""
    from opencomputer.sdk.control_plane import Call

    session = session_of(context)
    session.run(lambda plane: plane.send(Call("DELETE", _path(name))))
    session.output.success({"name": name, "deleted": True}, f"{name} deleted")


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Named snapshots: create, list, get, delete.")
    group.command("create")(create)
    group.command("list")(list_snapshots)
    group.command("ls", hidden=True)(list_snapshots)
    group.command("get")(get_snapshot)
    group.command("delete")(delete)
    app.add_typer(group, name="snapshot")
    app.add_typer(group, name="snapshots", hidden=True)


def _path(name: str) -> str:
    return path_of("snapshots", name)
