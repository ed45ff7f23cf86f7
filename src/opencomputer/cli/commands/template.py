"""`oc template …`: the templates on this machine, from which its sandboxes start."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Protocol

import typer

from opencomputer.cli import text
from opencomputer.cli.failures import CommandError
from opencomputer.cli.local_server import local_server
from opencomputer.cli.session import Session, session_of

_FOLDER = typer.Option(None, "--templates", help="The folder of the templates.", show_default=False)
_HEADERS = ("NAME", "HASH", "CURRENT", "SIZE", "PACKAGES", "BUILT")
_HASH_DIGITS = 12
_LIVE_COLUMNS = 100


class Template(Protocol):
    """What the server knows of one template."""

    @property
    def name(self) -> str: ...
    @property
    def hash(self) -> str: ...
    @property
    def current(self) -> bool: ...
    @property
    def description(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def package_count(self) -> int: ...
    @property
    def built_at(self) -> datetime: ...


def list_templates(context: typer.Context, templates: Path | None = _FOLDER) -> None:
    """List the templates on this machine."""
    session = session_of(context)
    with _errors_explained(session):
        from opencomputer.server.templates.catalogue import list_templates as find_templates

        found = find_templates(_folder(templates))
    rows = [
        [
            template.name,
            template.hash[:_HASH_DIGITS],
            "yes" if template.current else "",
            text.size(template.size_bytes),
            template.package_count,
            f"{template.built_at:%Y-%m-%dT%H:%M:%SZ}",
        ]
        for template in found
    ]
    none = "No templates. `oc template build` makes the base template."
    session.output.table([_view(template) for template in found], _HEADERS, rows, none)


def build(
    context: typer.Context,
    recipe: Path | None = typer.Argument(None, help="The recipe's folder.", show_default="templates/base"),
    templates: Path | None = _FOLDER,
    rebuild: bool = typer.Option(False, "--rebuild", help="Build it even if this recipe was built already."),
    verbose: bool = typer.Option(False, "--verbose", help="Show all that the build says."),
) -> None:
    """Build a template and make it the current one of its name. The same recipe is built once."""
    session = session_of(context)
    with _errors_explained(session):
        from opencomputer.server.settings import load_settings
        from opencomputer.server.templates.builder import BuildOptions, build_template

        options = BuildOptions(
            environment=os.environ,
            trust_host_certificates=load_settings(os.environ).trust_host_certificates,
            rebuild=rebuild,
        )
        with _progress(session, verbose=verbose) as progress:
            template = build_template(recipe or _base_recipe(), _folder(templates), progress, options)
    described = f"{template.name} {template.hash[:_HASH_DIGITS]} ({text.size(template.size_bytes)})"
    session.output.success(_view(template), described)


def remove(
    context: typer.Context,
    name: str = typer.Argument(..., help="The template's name.", show_default=False),
    hash: str | None = typer.Argument(None, help="Only this build of it.", show_default=False),
    templates: Path | None = _FOLDER,
) -> None:
    """Remove a template. No sandbox may still be using it."""
    session = session_of(context)
    with _errors_explained(session):
        from opencomputer.server.templates.catalogue import list_templates as find_templates
        from opencomputer.server.templates.catalogue import remove_template

        folder = _folder(templates)
        known = [template.hash for template in find_templates(folder) if template.name == name]
        removed = remove_template(folder, name, _whole_hash(hash, known) if hash else None)
    value = [_view(template) for template in removed]
    session.output.success(value, f"{name} removed ({len(removed)} builds)")


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Templates on this machine: list, build, rm.")
    group.command("list")(list_templates)
    group.command("ls", hidden=True)(list_templates)
    group.command("build")(build)
    group.command("rm")(remove)
    app.add_typer(group, name="template")


@contextmanager
def _errors_explained(session: Session) -> Generator[None]:
    with local_server():
        from opencomputer.server.domain.errors import OpenComputerError
        from opencomputer.server.settings import SettingsError

        try:
            yield
        except (OpenComputerError, SettingsError) as error:
            reason, *details = str(error).splitlines()
            for line in details:
                session.output.note(line)
            raise CommandError(reason) from error


def _folder(given: Path | None) -> Path:
    from opencomputer.server.settings import Overrides, load_settings

    return load_settings(os.environ, Overrides(templates=given)).templates


def _base_recipe() -> Path:
    recipe = Path(__file__).resolve().parents[4] / "templates" / "base"
    if not recipe.is_dir():
        raise CommandError("there is no base recipe beside this installation; name a recipe's folder")
    return recipe


def _whole_hash(beginning: str, known: list[str]) -> str:
    matching = [hash for hash in known if hash.startswith(beginning)]
    if len(matching) > 1:
        raise CommandError(f"{beginning} begins the hash of {len(matching)} builds; give more of it")
    return matching[0] if matching else beginning


def _view(template: Template) -> dict[str, object]:
    return {
        "name": template.name,
        "hash": template.hash,
        "current": template.current,
        "description": template.description,
        "sizeBytes": template.size_bytes,
        "packages": template.package_count,
        "builtAt": template.built_at.isoformat(),
    }


@contextmanager
def _progress(session: Session, *, verbose: bool) -> Generator[Callable[[str], None]]:
    """Steps of a build on standard error, with a line below them that moves on a terminal."""

    def show(line: str) -> None:
        if verbose or line.startswith("> "):
            session.output.note(line)

    if verbose or not session.output.shows_colour(sys.stderr):
        yield show
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("") as status:

        def show_live(line: str) -> None:
            show(line)
            status.update(Text(text.harmless(line)[:_LIVE_COLUMNS]))

        yield show_live
