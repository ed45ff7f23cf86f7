"""`oc webhook …`: where what happens to sandboxes is told."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import typer

from opencomputer.cli import text
from opencomputer.cli.failures import CommandError
from opencomputer.cli.options import named, optional, repeated
from opencomputer.cli.session import Session, session_of
from opencomputer.sdk.paths import path_of

if TYPE_CHECKING:
    from opencomputer.sdk.answers import JsonObject
    from opencomputer.sdk.control_plane import Call

_ID = named("WEBHOOK", "Its id.")
_DELIVERY = named("DELIVERY", "Its id.")
_TYPES = repeated("--event-type", "Only this, such as sandbox.stopped, or prefix.*", "TYPE")
_HEADERS = ("ID", "NAME", "URL", "EVENTS", "SANDBOX", "ENABLED", "CREATED")
_DELIVERY_HEADERS = ("ID", "STATUS", "CODE", "TIME")


def create(
    context: typer.Context,
    url: str = named("URL", "Where it is told."),
    event_type: list[str] = _TYPES,
    name: str = optional("--name", "What it is called."),
    sandbox: str = optional("--sandbox", "Only of this sandbox.", "SANDBOX"),
    secret: str = optional("--secret", "What it is signed with; the server makes one by default."),
    disabled: bool = typer.Option(False, "--disabled", help="Tell nothing yet."),
    idempotency_key: str = optional("--idempotency-key", "Once for this key."),
) -> None:
    """Tell a URL what happens to sandboxes. The secret is shown with it."""
    from opencomputer.sdk.control_plane import Call

    given = {
        "url": url,
        "name": name,
        "secret": secret,
        "eventTypes": event_type,
        "sandboxId": sandbox,
    }
    body = {key: value for key, value in given.items() if value} | ({"enabled": False} if disabled else {})
    headers = {"Idempotency-Key": idempotency_key or f"oc-cli-{secrets.token_hex(16)}"}
    session = session_of(context)
    answer = _object(session, Call("POST", "/webhooks", repeatable=True, json=body, headers=headers))
    _show_changed(session, answer, "made")


def list_webhooks(context: typer.Context) -> None:
    """List the webhooks."""
    from opencomputer.sdk.answers import is_json_array, json_object, json_objects
    from opencomputer.sdk.control_plane import get

    session = session_of(context)
    answer = session.run(lambda plane: plane.json(get("/webhooks")))
    found = json_objects(answer if is_json_array(answer) else json_object(answer).get("data"))
    rows = [
        [
            each.get("id", ""),
            each.get("name") or "-",
            each.get("url", ""),
            _events(each),
            each.get("sandboxId") or "all",
            _yes(each.get("enabled")),
            each.get("createdAt") or "-",
        ]
        for each in found
    ]
    session.output.table(found, _HEADERS, rows, "No webhooks.")


def get_webhook(context: typer.Context, webhook: str = _ID) -> None:
    """Show a webhook."""
    from opencomputer.sdk.control_plane import get

    session = session_of(context)
    answer = _object(session, get(_path(webhook)))
    pairs = [
        ("ID", answer.get("id", "")),
        ("Name", answer.get("name") or "-"),
        ("URL", answer.get("url", "")),
        ("Events", _events(answer)),
        ("Sandbox", answer.get("sandboxId") or "all"),
        ("Enabled", _yes(answer.get("enabled"))),
        ("Created", answer.get("createdAt") or "-"),
        ("Updated", answer.get("updatedAt") or "-"),
    ]
    session.output.result(answer, text.details(pairs))


def update(
    context: typer.Context,
    webhook: str = _ID,
    url: str = optional("--url", "Where it is told from now on."),
    name: str = optional("--name", "What it is called."),
    event_type: list[str] = _TYPES,
    all_events: bool = typer.Option(False, "--all-events", help="All there are."),
    enabled: bool | None = typer.Option(
        None, "--enable/--disable", help="Whether anything is told.", show_default=False
    ),
    rotate_secret: bool = typer.Option(
        False, "--rotate-secret", help="Sign with a new secret; for a day with the old one, too."
    ),
) -> None:
    """Change a webhook. What is not named stays."""
    from opencomputer.sdk.control_plane import Call

    if event_type and all_events:
        raise CommandError("--event-type and --all-events exclude each other")
    body: JsonObject = {key: value for key, value in (("url", url), ("name", name)) if value}
    if event_type or all_events:
        body["eventTypes"] = event_type or None
    if enabled is not None:
        body["enabled"] = enabled
    if rotate_secret:
        body["rotateSecret"] = True
    if not body:
        raise CommandError("there is nothing to change: see `oc webhook update --help`")
    session = session_of(context)
    _show_changed(session, _object(session, Call("PATCH", _path(webhook), json=body)), "changed")


def secret(context: typer.Context, webhook: str = _ID) -> None:
    """Show what a webhook is signed with."""
    from opencomputer.sdk.control_plane import get

    session = session_of(context)
    answer = _object(session, get(_path(webhook, "secret")))
    session.output.result(answer, text.harmless(answer.get("secret", "")))


def try_out(context: typer.Context, webhook: str = _ID) -> None:
    """Send a webhook something to try it."""
    from opencomputer.sdk.control_plane import Call

    session = session_of(context)
    answer = _object(session, Call("POST", _path(webhook, "test")))
    session.output.success(answer, f"{answer.get('eventType')} is on its way: {answer.get('messageId')}")


def delete(context: typer.Context, webhook: str = _ID) -> None:
    """Tell a webhook nothing any more."""
    from opencomputer.sdk.control_plane import Call

    session = session_of(context)
    session.run(lambda plane: plane.send(Call("DELETE", _path(webhook))))
    session.output.success({"id": webhook, "deleted": True}, f"{webhook} deleted")


def deliveries(context: typer.Context, webhook: str = _ID) -> None:
    """List what a webhook was sent, newest first."""
    from opencomputer.sdk.answers import is_json_array, json_object, json_objects
    from opencomputer.sdk.control_plane import get

    session = session_of(context)
    answer = session.run(lambda plane: plane.json(get(_path(webhook, "deliveries"))))
    found = json_objects(answer if is_json_array(answer) else json_object(answer).get("data"))
    rows = [
        [
            each.get("id", ""),
            each.get("status", ""),
            each.get("responseStatusCode") or "-",
            each.get("timestamp") or "-",
        ]
        for each in found
    ]
    session.output.table(found, _DELIVERY_HEADERS, rows, "No deliveries.")


def redeliver(context: typer.Context, webhook: str = _ID, delivery: str = _DELIVERY) -> None:
    """Send a webhook something once more."""
    from opencomputer.sdk.control_plane import Call

    session = session_of(context)
    answer = _object(session, Call("POST", _path(webhook, "deliveries", delivery, "redeliver")))
    session.output.success(answer, f"{delivery} is on its way again")


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        help="What happens to sandboxes, told to a URL: create, list, update, test, deliveries, …"
    )
    group.command("create")(create)
    group.command("list")(list_webhooks)
    group.command("ls", hidden=True)(list_webhooks)
    group.command("get")(get_webhook)
    group.command("update")(update)
    group.command("secret")(secret)
    group.command("test")(try_out)
    group.command("delete")(delete)
    group.command("deliveries")(deliveries)
    group.command("redeliver")(redeliver)
    app.add_typer(group, name="webhook")


def _object(session: Session, call: Call) -> JsonObject:
    from opencomputer.sdk.answers import json_object

    return json_object(session.run(lambda plane: plane.json(call)))


def _show_changed(session: Session, answer: JsonObject, done: str) -> None:
    told = f", secret {answer['secret']}" if answer.get("secret") else ""
    session.output.success(answer, f"{answer.get('id')} {done}{told}")


def _path(*parts: str) -> str:
    return path_of("webhooks", *parts)


def _events(item: JsonObject) -> str:
    from opencomputer.sdk.answers import texts

    return ", ".join(texts(item, "eventTypes")) or "all"


def _yes(value: object) -> str:
    return "no" if value is False else "yes"
