"""`oc repo …`: repositories that sessions may work on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from opencomputer.cli import text
from opencomputer.cli.failures import CommandError
from opencomputer.cli.options import named, optional
from opencomputer.cli.session import session_of

if TYPE_CHECKING:
    from opencomputer.sdk.durable.repository_records import Repo

_HEADERS = ("ID", "PROVIDER", "REPOSITORY", "NAME", "CREATED")


def add(
    context: typer.Context,
    repository: str = named("OWNER/REPO", "Whose it is, and its name there."),
    name: str = optional("--name", "What it is called here."),
) -> None:
    """Put a repository on record, or show the one that is."""
    owner, _, repo = repository.partition("/")
    if not (owner and repo) or "/" in repo:
        raise CommandError(f"a repository is OWNER/REPO, not {repository!r}")
    session = session_of(context)
    made = session.run_durable(lambda durable: durable.repos.create(owner, repo, name=name or None))
    session.output.success(made.raw, f"{made.id}  {_full_name(made)}")


def list_repos(
    context: typer.Context,
    limit: int = typer.Option(50, "--limit", min=1, max=200, help="At most so many."),
    cursor: str = optional("--cursor", "Where an earlier list ended."),
) -> None:
    """List the repositories that are on record."""
    session = session_of(context)
    page = session.run_durable(lambda durable: durable.repos.list(limit=limit, cursor=cursor or None))
    rows = [[each.id, each.provider, _full_name(each), each.name or "-", each.created_at] for each in page]
    session.output.table([each.raw for each in page], _HEADERS, rows, "No repositories.")
    if page.next_cursor and not session.output.json:
        session.output.note(f"There are more: --cursor {page.next_cursor}")


def get(context: typer.Context, repo: str = named("REPO", "Its id.")) -> None:
    """Show a repository."""
    session = session_of(context)
    found = session.run_durable(lambda durable: durable.repos.get(repo))
    pairs = [
        *(("ID", found.id), ("Provider", found.provider), ("Repository", _full_name(found))),
        *(("Name", found.name or "-"), ("Created", found.created_at)),
    ]
    session.output.result(found.raw, text.details(pairs))


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Repositories that sessions may work on: add, list, get.")
    group.command("add")(add)
    group.command("list")(list_repos)
    group.command("ls", hidden=True)(list_repos)
    group.command("get")(get)
    app.add_typer(group, name="repo")


def _full_name(repo: Repo) -> str:
    return f"{repo.owner}/{repo.repo}"
