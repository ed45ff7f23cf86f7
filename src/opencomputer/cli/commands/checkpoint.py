"""`oc checkpoint …`: saved states of sandboxes."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import typer

from opencomputer.cli import text
from opencomputer.cli.failures import CommandError
from opencomputer.cli.options import optional
from opencomputer.cli.session import Session, session_of

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.sandbox_link import SandboxLink

_SANDBOX = typer.Argument(..., metavar="SANDBOX", help="The sandbox's id.", show_default=False)
_CHECKPOINT = typer.Argument(..., metavar="CHECKPOINT", help="The checkpoint's id.", show_default=False)
_HEADERS = ("ID", "NAME", "STATUS", "SIZE", "CREATED")


class Kind(StrEnum):
    """What a checkpoint holds."""

    FULL = "full"
    DISK_ONLY = "disk_only"


class RetentionMode(StrEnum):
    """What makes room for a checkpoint."""

    NONE = "none"
    DELETE_OLDEST = "delete_oldest"


def create(
    context: typer.Context,
    sandbox: str = _SANDBOX,
    name: str = typer.Option(..., "--name", help="Its name.", show_default=False),
    kind: Kind = typer.Option(Kind.FULL, help="With memory and processes, or just the files."),
    promote_to_full: bool | None = typer.Option(None, "--promote-to-full/--no-promote-to-full", hidden=True),
    retention_policy: RetentionMode = typer.Option(RetentionMode.NONE, help="What makes room for it."),
    retention_max_count: int = typer.Option(
        0, min=0, help="How many of its kind there may be.", show_default=False
    ),
    wait: bool = typer.Option(False, "--wait", help="Return only when it is durable."),
) -> None:
    """Save a sandbox as it is now, while it goes on."""
    policy = _policy(retention_policy, retention_max_count)

    async def work(link: SandboxLink) -> JsonObject:
        from opencomputer.sdk.checkpoints import Checkpoints

        made = await Checkpoints(link).create(name, kind.value, promote_to_full, policy)
        try:
            return await made.wait_until_ready() if wait else made
        except TimeoutError as error:
            raise CommandError(f"checkpoint {made.id} is still not ready") from error

    session = session_of(context)
    answer = session.run_on(sandbox, work)
    session.output.success(answer, f"{answer.get('id')} {answer.get('status')} {answer.get('name')}")


def _policy(mode: RetentionMode, maximum: int) -> JsonObject | None:
    if mode is RetentionMode.NONE:
        if maximum:
            raise CommandError("--retention-max-count needs --retention-policy delete_oldest")
        return None
    policy: JsonObject = {"mode": mode.value}
    return policy | ({"maxCount": maximum} if maximum else {})


def list_checkpoints(context: typer.Context, sandbox: str = _SANDBOX) -> None:
    """List a sandbox's checkpoints, newest first."""
    from opencomputer.sdk.checkpoints import Checkpoints

    session = session_of(context)
    answer = session.run_on(sandbox, lambda link: Checkpoints(link).list())
    rows = [
        [
            each.get("id", ""),
            each.name,
            each.status,
            text.size(each.size_bytes) if each.size_bytes else "-",
            each.get("createdAt") or "-",
        ]
        for each in answer
    ]
    session.output.table(answer, _HEADERS, rows, "No checkpoints.")


def restore(context: typer.Context, sandbox: str = _SANDBOX, checkpoint: str = _CHECKPOINT) -> None:
    """Take a sandbox back to one of its checkpoints. What came later is lost."""
    from opencomputer.sdk.checkpoints import Checkpoints

    session = session_of(context)
    session.run_on(sandbox, lambda link: Checkpoints(link).restore(checkpoint))
    value = {"sandboxId": sandbox, "checkpointId": checkpoint, "restored": True}
    session.output.success(value, f"{sandbox} is back at {checkpoint}")


def delete(context: typer.Context, sandbox: str = _SANDBOX, checkpoint: str = _CHECKPOINT) -> None:
    """Delete a checkpoint. Sandboxes made from it stay."""
    from opencomputer.sdk.control_plane import Call

    session = session_of(context)
    session.run_on(
        sandbox, lambda link: link.plane.send(Call("DELETE", link.path("checkpoints", checkpoint)))
    )
    session.output.success({"id": checkpoint, "deleted": True}, f"{checkpoint} deleted")


def spawn(
    context: typer.Context,
    checkpoint: str = _CHECKPOINT,
    timeout: int = typer.Option(0, min=0, help="Idle seconds until it is put to sleep; 0 for never."),
    memory: int = typer.Option(0, min=0, help="Memory in MB, if more than it had.", show_default=False),
    env: list[str] = typer.Option([], metavar="K=V", help="A variable of later processes; repeatable."),
    metadata: list[str] = typer.Option([], metavar="K=V", help="A note of your own; repeatable."),
    secret_store: str = optional("--secret-store", "A secret store besides those it has.", "NAME"),
) -> None:
    """Make a sandbox that goes on from a checkpoint."""
    from opencomputer.sdk import forks
    from opencomputer.sdk.answers import json_object

    options = forks.ForkOptions(
        timeout=timeout,
        envs=text.assignments(env, "--env") or None,
        metadata=text.assignments(metadata, "--metadata") or None,
        memory_mb=memory or None,
        secret_store=secret_store or None,
    )
    session = session_of(context)
    answer = json_object(session.run(lambda plane: plane.json(forks.from_checkpoint(checkpoint, options))))
    shown = (answer.get(key) for key in ("sandboxID", "status", "connectURL"))
    session.output.success(answer, " ".join(str(each) for each in shown if each))
    if answer.get("patchError"):
        session.output.warn(f"a patch failed in it: {answer['patchError']}")


def publish(context: typer.Context, checkpoint: str = _CHECKPOINT) -> None:
    """Let every organisation make sandboxes from a checkpoint."""
    session = session_of(context)
    session.output.note("Its files and its memory, and whatever secrets are in them, become public.")
    _publish(session, checkpoint, public=True)


def unpublish(context: typer.Context, checkpoint: str = _CHECKPOINT) -> None:
    """Keep a checkpoint to this organisation again."""
    _publish(session_of(context), checkpoint, public=False)


def _publish(session: Session, checkpoint: str, *, public: bool) -> None:
    from opencomputer.sdk.checkpoints import publish

    answer = session.run(lambda plane: publish(plane, checkpoint, public=public))
    state = "public" if answer.get("isPublic") else "not public"
    session.output.success(answer, f"{checkpoint} is {state}")


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Saved states: create, list, restore, delete, spawn, publish, unpublish.")
    group.command("create")(create)
    group.command("list")(list_checkpoints)
    group.command("ls", hidden=True)(list_checkpoints)
    group.command("restore")(restore)
    group.command("delete")(delete)
    group.command("spawn")(spawn)
    group.command("publish")(publish)
    group.command("unpublish")(unpublish)
    app.add_typer(group, name="checkpoint")
