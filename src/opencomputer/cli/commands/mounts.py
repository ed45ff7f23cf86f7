"""`oc mounts …`: storage from elsewhere, as a folder in a sandbox."""

from __future__ import annotations

import shlex
from enum import StrEnum
from typing import TYPE_CHECKING

import typer

from opencomputer.cli import text
from opencomputer.cli.durable_targets import file_text
from opencomputer.cli.failures import CommandError
from opencomputer.cli.options import SANDBOX, named, optional, repeated
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject

_HEADERS = ("PATH", "DRIVER", "SOURCE", "MODE")


class Backend(StrEnum):
    """Where a remote is."""

    S3 = "s3"
    GCS = "gcs"
    AZUREBLOB = "azureblob"
    SFTP = "sftp"
    WEBDAV = "webdav"
    DROPBOX = "dropbox"


def add(
    context: typer.Context,
    sandbox: str = SANDBOX,
    path: str = typer.Option(..., "--path", help="The folder in the sandbox.", show_default=False),
    remote: str = optional("--remote", "What is mounted, as rclone names it.", "NAME:PATH"),
    backend: Backend | None = typer.Option(None, "--backend", help="Where it is.", show_default=False),
    cred: list[str] = repeated("--cred", "An option of the backend, such as a key", "K=V"),
    config_file: str = optional("--config-file", "An rclone configuration instead.", "FILE"),
    opt: list[str] = repeated("--opt", "An argument of rclone's mount", "ARG"),
    command: list[str] = repeated("--command", "A word of a command; {mountpoint} is the folder", "ARG"),
    env: list[str] = repeated("--env", "A variable of that command", "K=V"),
    secret: list[str] = repeated("--secret", "The same, but never shown", "K=V"),
    read_write: bool = typer.Option(False, "--read-write", help="Allow changes."),
) -> None:
    """Mount storage in a sandbox. It is gone when the sandbox sleeps."""
    if bool(remote) == bool(command):
        raise CommandError("give either --remote or --command")
    of_remote, of_command = bool(backend or cred or config_file or opt), bool(env or secret)
    if command and of_remote:
        raise CommandError("--backend, --cred, --config-file and --opt belong to --remote")
    if remote and of_command:
        raise CommandError("--env and --secret belong to --command")
    if config_file and (backend or cred):
        raise CommandError("--config-file takes the place of --backend and --cred")
    given: JsonObject = {
        "driver": "command" if command else None,
        "remote": remote,
        "backend": backend.value if backend else None,
        "creds": text.assignments(cred, "--cred"),
        "rcloneConfig": file_text(config_file) if config_file else None,
        "mountOptions": opt,
        "command": command,
        "env": text.assignments(env, "--env"),
        "secrets": text.assignments(secret, "--secret"),
    }
    chosen = {name: value for name, value in given.items() if value}
    _add(context, sandbox, {"path": path, "readOnly": not read_write, **chosen})


def _add(context: typer.Context, sandbox: str, body: JsonObject) -> None:
    from opencomputer.sdk.answers import json_object
    from opencomputer.sdk.control_plane import Call

    session = session_of(context)
    made = session.run_on(sandbox, lambda link: link.plane.json(Call("POST", link.path("mounts"), json=body)))
    answer = json_object(made)
    session.output.success(answer, "  ".join(str(cell) for cell in _row(answer)))


def list_mounts(context: typer.Context, sandbox: str = SANDBOX) -> None:
    """List what is mounted in a sandbox."""
    from opencomputer.sdk.answers import json_objects
    from opencomputer.sdk.control_plane import get

    session = session_of(context)
    answer = json_objects(session.run_on(sandbox, lambda link: link.plane.json(get(link.path("mounts")))))
    session.output.table(answer, _HEADERS, map(_row, answer), "No mounts.")


def remove(
    context: typer.Context, sandbox: str = SANDBOX, path: str = named("PATH", "The folder in the sandbox.")
) -> None:
    """Unmount a folder. What it showed stays where it is."""
    from opencomputer.sdk.control_plane import Call

    session = session_of(context)
    session.run_on(
        sandbox, lambda link: link.plane.send(Call("DELETE", link.path("mounts"), params={"path": path}))
    )
    session.output.success({"path": path, "removed": True}, f"{path} unmounted")


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Storage mounted in a sandbox: add, list, rm.")
    group.command("add")(add)
    group.command("list")(list_mounts)
    group.command("ls", hidden=True)(list_mounts)
    group.command("rm")(remove)
    group.command("remove", hidden=True)(remove)
    app.add_typer(group, name="mounts")
    app.add_typer(group, name="mount", hidden=True)


def _row(item: JsonObject) -> list[object]:
    from opencomputer.sdk.answers import texts

    return [
        item.get("path", ""),
        item.get("driver") or "rclone",
        item.get("remote") or shlex.join(texts(item, "command")) or "-",
        "read-write" if item.get("readOnly") is False else "read-only",
    ]
