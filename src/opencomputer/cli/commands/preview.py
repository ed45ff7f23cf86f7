"""`oc preview …`: ports of sandboxes under host names of their own."""

from __future__ import annotations

import typer

from opencomputer.cli import text
from opencomputer.cli.session import session_of

_SANDBOX = typer.Argument(..., metavar="SANDBOX", help="The sandbox's id.", show_default=False)
_PORT = typer.Argument(..., metavar="PORT", help="The port.", show_default=False, min=1, max=65535)
_DETAILS = (
    ("URL", "url"),
    ("Hostname", "hostname"),
    ("Port", "port"),
    ("SSL", "sslStatus"),
    ("Custom", "customHostname"),
)
_HEADERS = ("PORT", "HOSTNAME", "SSL", "CREATED")
_GRANT_HEADERS = ("ID", "PORT", "EXPIRES")


def create(
    context: typer.Context,
    sandbox: str = _SANDBOX,
    port: int = typer.Option(..., "--port", min=1, max=65535, help="The port.", show_default=False),
    domain: str = typer.Option("", help="A verified domain of your own.", show_default=False),
) -> None:
    """Put a port on record and show its address. It is reached without that, too."""
    from opencomputer.sdk.previews import Previews

    session = session_of(context)
    answer = session.run_on(sandbox, lambda link: Previews(link).create(port, domain or None))
    shown = [(name, str(answer[key])) for name, key in _DETAILS if answer.get(key)]
    session.output.result(answer, text.details(shown))


def list_previews(context: typer.Context, sandbox: str = _SANDBOX) -> None:
    """List the ports that are on record."""
    from opencomputer.sdk.previews import Previews

    session = session_of(context)
    answer = session.run_on(sandbox, lambda link: Previews(link).list())
    rows = [
        [
            str(each.get("port")),
            str(each.get("customHostname") or each.get("hostname")),
            str(each.get("sslStatus")),
            str(each.get("createdAt")),
        ]
        for each in answer
    ]
    session.output.table(answer, _HEADERS, rows, "No preview URLs.")


def delete(context: typer.Context, sandbox: str = _SANDBOX, port: int = _PORT) -> None:
    """Remove a port's record. The port itself stays reachable."""
    from opencomputer.sdk.previews import Previews

    session = session_of(context)
    session.run_on(sandbox, lambda link: Previews(link).delete(port))
    session.output.success({"port": port, "deleted": True}, f"preview URL of port {port} deleted")


def rotate_auth(context: typer.Context, sandbox: str = _SANDBOX) -> None:
    """Ask for a new token at all ports; the old one ends now. The token is shown only here."""
    from opencomputer.sdk.previews import Previews

    session = session_of(context)
    token = session.run_on(sandbox, lambda link: Previews(link).rotate_token())
    session.output.result({"previewAuthToken": token, "scheme": "bearer"}, text.harmless(token))


def grant(
    context: typer.Context,
    sandbox: str = _SANDBOX,
    port: int = _PORT,
    ttl: int = typer.Option(3600, min=1, help="For how many seconds."),
) -> None:
    """Make a link that lets a browser in to one port for a while."""
    from opencomputer.sdk.previews import Previews

    session = session_of(context)
    answer = session.run_on(sandbox, lambda link: Previews(link).grant(port, ttl))
    session.output.result(answer, text.harmless(str(answer.get("url"))))


def list_grants(context: typer.Context, sandbox: str = _SANDBOX, port: int = _PORT) -> None:
    """List the grants to a port that have not expired."""
    from opencomputer.sdk.previews import Previews

    session = session_of(context)
    answer = session.run_on(sandbox, lambda link: Previews(link).grants(port))
    rows = [[str(each.get("id")), str(each.get("port")), str(each.get("expiresAt"))] for each in answer]
    session.output.table(answer, _GRANT_HEADERS, rows, "No grants.")


def revoke(
    context: typer.Context,
    sandbox: str = _SANDBOX,
    port: int = _PORT,
    grant_id: str = typer.Argument(..., metavar="GRANT", help="The grant's id.", show_default=False),
) -> None:
    """Take a grant back, and end what was opened by it."""
    from opencomputer.sdk.previews import Previews

    session = session_of(context)
    session.run_on(sandbox, lambda link: Previews(link).revoke(port, grant_id))
    session.output.success({"id": grant_id, "revoked": True}, f"grant {grant_id} revoked")


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Ports of sandboxes under host names of their own.", no_args_is_help=True)
    group.command("create")(create)
    group.command("list")(list_previews)
    group.command("ls", hidden=True)(list_previews)
    group.command("delete")(delete)
    group.command("rotate-auth")(rotate_auth)
    group.command("grant")(grant)
    group.command("grants")(list_grants)
    group.command("revoke")(revoke)
    app.add_typer(group, name="preview")
