"""`oc sandbox …`, and its short forms `oc create`, `ls`, `get` and `kill`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from opencomputer.cli import clock, text
from opencomputer.cli.commands import power, scale
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from datetime import datetime

    from opencomputer.cli.session import Session
    from opencomputer.sdk.answers import JsonObject

_ID = typer.Argument(..., metavar="SANDBOX", help="The sandbox's id.", show_default=False)
_CREATE_SECONDS = 120.0
_IF_THERE = (
    ("Stopped", "stoppedAt"),
    ("Because", "stopReason"),
    ("From", "fromCheckpointId"),
    ("Patch error", "patchError"),
    ("Not asleep", "lastHibernateError"),
)
_HEADERS = ("ID", "TEMPLATE", "STATUS", "CPU", "MEM", "AGE")


def create(
    context: typer.Context,
    template: str = typer.Option("base", help="What it starts from."),
    snapshot: str = typer.Option("", help="The named snapshot it starts from instead.", show_default=False),
    timeout: int = typer.Option(0, min=0, help="Idle seconds until it is put to sleep; 0 for never."),
    cpu: int = typer.Option(0, min=0, help="Processors.", show_default=False),
    memory: int = typer.Option(0, min=0, help="Memory in MB.", show_default=False),
    disk: int = typer.Option(0, min=0, help="Disk in MB.", show_default=False),
    env: list[str] = typer.Option([], metavar="K=V", help="A variable of every process in it; repeatable."),
    metadata: list[str] = typer.Option([], metavar="K=V", help="A note of your own; repeatable."),
    preview_auth: bool = typer.Option(False, "--preview-auth", help="Let its previews ask for a token."),
    preview_auth_token: str = typer.Option("", metavar="TOKEN", help="That token.", show_default=False),
    secret_store: str = typer.Option("", metavar="NAME", help="Its secret store.", show_default=False),
    egress_allowlist: str = typer.Option(
        "", metavar="H1,H2", help="The hosts it may reach; any if there are none.", show_default=False
    ),
    burst: bool = typer.Option(False, "--burst", help="On capacity that can be taken away, if there is any."),
) -> None:
    """Create a sandbox."""
    options: dict[str, object] = {
        "cpuCount": cpu,
        "memoryMB": memory,
        "diskMB": disk,
        "snapshot": snapshot,
        "secretStore": secret_store,
        "egressAllowlist": text.listed(egress_allowlist),
        "envs": text.assignments(env, "--env"),
        "metadata": text.assignments(metadata, "--metadata"),
        "previewAuth": _preview_auth(preview_auth, preview_auth_token),
        "burst": burst,
    }
    body = {"templateID": template, "timeout": timeout} | {k: v for k, v in options.items() if v}
    _create(session_of(context), body)


def _create(session: Session, body: JsonObject) -> None:
    from opencomputer.sdk.answers import json_object
    from opencomputer.sdk.control_plane import post_once, with_timeout

    # A server without room lets a create wait for some.
    call = with_timeout(post_once("/sandboxes", body), _CREATE_SECONDS)
    answer = json_object(session.run(lambda plane: plane.json(call)))
    token = answer.get("previewAuthToken")
    told = f", preview token {token}" if token else ""
    session.output.success(answer, f"{answer.get('sandboxID')} {answer.get('status')}{told}")
    _warn(session, answer)


def _warn(session: Session, answer: JsonObject) -> None:
    from opencomputer.sdk.answers import texts

    for warning in texts(answer, "warnings"):
        session.output.warn(warning)


def _preview_auth(wanted: bool, token: str) -> JsonObject | None:
    return {"scheme": "bearer", "token": token or "auto"} if wanted or token else None


def list_sandboxes(context: typer.Context) -> None:
    """List the sandboxes that are not stopped."""
    from opencomputer.sdk.answers import json_objects
    from opencomputer.sdk.control_plane import get

    session = session_of(context)
    answer = json_objects(session.run(lambda plane: plane.json(get("/sandboxes"))))
    now = clock.now()
    session.output.table(answer, _HEADERS, [_row(item, now) for item in answer], "No sandboxes.")


def get_sandbox(context: typer.Context, sandbox: str = _ID) -> None:
    """Show one sandbox."""
    from opencomputer.sdk.answers import json_object
    from opencomputer.sdk.control_plane import get

    session = session_of(context)
    answer = json_object(session.run_on(sandbox, lambda link: link.plane.json(get(link.path()))))
    session.output.result(answer, text.details(_details(answer)))


def kill(
    context: typer.Context,
    sandbox: str = _ID,
    delete_secret_store: bool = typer.Option(
        False, "--delete-secret-store", help="Its secret store too, if no other sandbox has it."
    ),
) -> None:
    """End a sandbox for good."""
    from opencomputer.sdk.control_plane import Call

    session = session_of(context)
    params = {"deleteSecretStore": "true"} if delete_secret_store else {}
    session.run_on(sandbox, lambda link: link.plane.send(Call("DELETE", link.path(), params=params)))
    session.output.success({"sandboxID": sandbox, "killed": True}, f"{sandbox} killed")


def allowed_hosts(context: typer.Context, sandbox: str = _ID) -> None:
    """Show which hosts a sandbox may reach, and which each of its secrets may go to."""
    from opencomputer.sdk.answers import json_object, texts
    from opencomputer.sdk.control_plane import get

    session = session_of(context)
    answer = json_object(
        session.run_on(sandbox, lambda link: link.plane.json(get(link.path("allowed-hosts"))))
    )
    hosts = ", ".join(texts(answer, "egressAllowlist")) or "any"
    pairs: list[tuple[str, object]] = [
        ("Secret stores", ", ".join(texts(answer, "secretStores")) or "none"),
        ("Hosts", "no network" if answer.get("networkEnabled") is False else hosts),
    ]
    by_secret = json_object(answer.get("perSecretAllowedHosts"))
    pairs += [(name, ", ".join(texts(by_secret, name))) for name in by_secret]
    session.output.result(answer, text.details(pairs))


def set_timeout(
    context: typer.Context,
    sandbox: str = _ID,
    seconds: int = typer.Argument(..., min=0, help="Idle seconds; 0 for never.", show_default=False),
) -> None:
    """Set the idle time after which a sandbox is put away."""
    from opencomputer.sdk.control_plane import Call

    session = session_of(context)
    body = {"timeout": seconds}
    session.run_on(sandbox, lambda link: link.plane.send(Call("POST", link.path("timeout"), json=body)))
    session.output.success(
        {"sandboxID": sandbox, "timeout": seconds},
        f"{sandbox} is put to sleep after {seconds} idle seconds" if seconds else f"{sandbox} never sleeps",
    )


def add_to(app: typer.Typer) -> None:
    """Add the group, and the short forms beside it."""
    group = typer.Typer(help="Sandboxes: create, list, get, kill, set-timeout, hibernate, scale and more.")
    for place in (group, app):
        place.command("create")(create)
        place.command("ls", hidden=place is group)(list_sandboxes)
        place.command("list", hidden=place is app)(list_sandboxes)
        place.command("get")(get_sandbox)
        place.command("kill")(kill)
    group.command("set-timeout")(set_timeout)
    group.command("allowed-hosts")(allowed_hosts)
    power.add_to(group)
    scale.add_to_group(group)
    app.add_typer(group, name="sandbox")


def _row(item: JsonObject, now: datetime) -> list[object]:
    return [
        item.get("sandboxID", ""),
        item.get("templateID", ""),
        item.get("status", ""),
        item.get("cpuCount", "-"),
        _memory(item),
        text.age(str(item.get("startedAt") or item.get("createdAt") or ""), now),
    ]


def _details(item: JsonObject) -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = [
        ("ID", item.get("sandboxID", "")),
        ("Template", item.get("templateID", "")),
        ("Status", item.get("status", "")),
        ("CPU", item.get("cpuCount", "-")),
        ("Memory", _memory(item)),
        ("Started", item.get("startedAt") or "-"),
    ]
    if item.get("endAt") and item.get("timeout") != 0:
        pairs.append(("Ends", item["endAt"]))
    return pairs + [(label, item[key]) for label, key in _IF_THERE if item.get(key)]


def _memory(item: JsonObject) -> str:
    memory = item.get("memoryMB")
    return f"{memory}MB" if memory else "-"
