"""`oc login`, `logout` and `whoami`: who this client is on which server."""

from __future__ import annotations

import os

import typer

from opencomputer.cli import text
from opencomputer.cli.config import load_profile, save_profile, text_in
from opencomputer.cli.failures import CommandError
from opencomputer.cli.session import Session, session_of


def login(
    context: typer.Context,
    no_browser: bool = typer.Option(False, "--no-browser", help="Do not open a browser."),
    force: bool = typer.Option(False, "--force", help="Replace a key or login that is saved already."),
) -> None:
    """Get a key for this machine: somebody with a key of the organisation approves it on a page."""
    if context.invoked_subcommand is None:
        from opencomputer.cli.signing_in import sign_in

        sign_in(session_of(context), browser=not no_browser, force=force)


def approve(
    context: typer.Context,
    code: str = typer.Argument(..., metavar="CODE", help="The code that it shows.", show_default=False),
    deny: bool = typer.Option(False, "--deny", help="Refuse it instead."),
) -> None:
    """Let another machine's `oc login` in, with the key that applies here."""
    from opencomputer.cli.signing_in import decide

    decide(session_of(context), code, approve=not deny)


def logout(
    context: typer.Context,
    local: bool = typer.Option(False, "--local", help="Only forget it here; the key stays valid."),
) -> None:
    """End the login: revoke its key, and forget it."""
    session = session_of(context)
    name, kept = load_profile(session.flags.profile, os.environ)
    if local:
        _forget(session, name, kept, "forgotten here; the key stays valid on the server")
        return
    source = session.server.key_source
    if source in ("flag", "environment"):
        raise CommandError(
            f"the key comes from the {_WHERE[source]}, not from a login",
            hint="unset OPENCOMPUTER_API_KEY, or leave --api-key out",
        )
    login_of = kept.get("login")
    key = text_in(kept, "api_key")
    if not key or not isinstance(login_of, dict):
        raise CommandError(
            "there is no login to end: the saved key was not made by one" if key else "not signed in",
            hint="oc logout --local forgets a key" if key else "oc login",
        )
    from opencomputer.cli.signing_in import revoke

    revoke(kept)
    _forget(session, name, kept, "signed out; the key is revoked")


def whoami(context: typer.Context) -> None:
    """Show whose key applies, and where."""
    from opencomputer.cli.signing_in import identity

    session = session_of(context)
    if not session.server.api_key:
        raise CommandError("not signed in", hint="oc login")
    found = identity(session)
    pairs = [
        ("User", found.get("email") or found.get("user_id") or "-"),
        ("Workspace", found.get("org_name") or "-"),
        ("Org ID", found.get("org_id") or "-"),
        ("API", session.server.api_url),
    ]
    session.output.result({**found, "api_url": session.server.api_url}, text.details(pairs))


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(invoke_without_command=True)
    group.callback()(login)
    group.command("approve")(approve)
    app.add_typer(group, name="login")
    app.command("logout")(logout)
    app.command("whoami")(whoami)


_WHERE = {"flag": "command line", "environment": "environment"}


def _forget(session: Session, name: str, kept: dict[str, object], done: str) -> None:
    rest = {key: value for key, value in kept.items() if key not in ("api_key", "login")}
    save_profile(name, rest, os.environ)
    session.output.success({"profile": name, "signed_out": True}, done)
