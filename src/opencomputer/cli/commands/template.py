"""`oc template …`: what sandboxes start from, on the server and on this machine.

On a server that are its named snapshots, as for `oc snapshot`. Templates themselves are made on its machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Mapping, Set
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Protocol

import typer

from opencomputer.cli import text
from opencomputer.cli.commands import snapshot
from opencomputer.cli.failures import CommandError
from opencomputer.cli.local_server import local_server
from opencomputer.cli.session import Session, session_of

_FOLDER = typer.Option(None, "--templates", help="The folder of the templates.", show_default=False)
_HEADERS = ("NAME", "HASH", "CURRENT", "SIZE", "PACKAGES", "BUILT", "FROM")
_HASH_DIGITS = 12
_LIVE_COLUMNS = 100


class Image(Protocol):
    """Where a template was imported from."""

    @property
    def source(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


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
    @property
    def environment(self) -> Mapping[str, str]: ...
    @property
    def workdir(self) -> str | None: ...
    @property
    def image(self) -> Image | None: ...


def list_templates(
    context: typer.Context,
    local: bool = typer.Option(False, "--local", help="The builds on this machine instead."),
    templates: Path | None = _FOLDER,
) -> None:
    """List the server's named snapshots, or the templates on this machine."""
    session = session_of(context)
    if not (local or templates):
        snapshot.list_snapshots(context)
        _note_templates(session)
        return
    with _errors_explained(session):
        from opencomputer.server.templates.catalogue import list_templates as find_templates

        found = find_templates(_folder(templates))
    rows = [
        [
            template.name,
            template.hash[:_HASH_DIGITS],
            "yes" if template.current else "",
            text.size(template.size_bytes),
            template.package_count or "",
            f"{template.built_at:%Y-%m-%dT%H:%M:%SZ}",
            template.image.source if template.image else "a recipe",
        ]
        for template in found
    ]
    none = "No templates. `oc template build` makes the base template."
    session.output.table([_view(template) for template in found], _HEADERS, rows, none)


def _note_templates(session: Session) -> None:
    if session.output.json or session.output.quiet:
        return
    from opencomputer.sdk.answers import json_objects
    from opencomputer.sdk.control_plane import get
    from opencomputer.sdk.errors import OpenComputerError

    with suppress(OpenComputerError):
        found = json_objects(session.run(lambda plane: plane.json(get("/templates"))))
        names = ", ".join(str(each.get("name", "")) for each in found)
        session.output.note(f"Templates: {names}" if names else "No templates.")
    session.output.note("Builds on this machine: oc template list --local")


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
    session.output.success(_view(template), _described(template))


def import_image(
    context: typer.Context,
    source: str = typer.Argument(
        ..., help="docker://NAME:TAG, oci:FOLDER:TAG, oci-archive:FILE or docker-archive:FILE."
    ),
    name: str | None = typer.Option(None, "--name", help="The template's name.", show_default="the image's"),
    max_size: float = typer.Option(20, "--max-size", min=0.001, help="The most the image may take, in GiB."),
    templates: Path | None = _FOLDER,
    verbose: bool = typer.Option(False, "--verbose", help="Show all that skopeo and umoci say."),
) -> None:
    """Make a template from an OCI image. The same image is fetched once; older builds of the name stay."""
    session = session_of(context)
    with _errors_explained(session):
        from opencomputer.server.settings import load_settings
        from opencomputer.server.templates.images.importer import (
            ImportLimits,
            ImportOptions,
            import_template,
        )

        options = ImportOptions(
            environment=os.environ,
            trust_host_certificates=load_settings(os.environ).trust_host_certificates,
            limits=ImportLimits(int(max_size * (1 << 30))),
        )
        with _progress(session, verbose=verbose) as progress:
            template = import_template(source, name, _folder(templates), progress, options)
    for note in template.image.notes if template.image else ():
        session.output.note(f"note: {note}")
    session.output.success(_view(template), _described(template))


def remove(
    context: typer.Context,
    name: str = typer.Argument(..., help="The template's name.", show_default=False),
    hash: str | None = typer.Argument(None, help="Only this build of it.", show_default=False),
    templates: Path | None = _FOLDER,
    force: bool = typer.Option(False, "--force", help="Even if sandboxes or snapshots were made from it."),
) -> None:
    """Remove a template, or one build of it. Old builds that nothing needs are removed by the node itself."""
    session = session_of(context)
    with _errors_explained(session):
        from opencomputer.server.templates.catalogue import list_templates as find_templates
        from opencomputer.server.templates.catalogue import remove_template
        from opencomputer.server.templates.needs import needed
        from opencomputer.server.templates.usage import machines_using

        folder = _folder(templates)
        builds = [template for template in find_templates(folder) if template.name == name]
        whole = _whole_hash(hash, [template.hash for template in builds]) if hash else None
        doomed = [template for template in builds if whole in (None, template.hash)]
        roots = [template.rootfs for template in doomed]
        if not force:
            _refuse_needed(machines_using(roots), needed(folder).keys() & {build.hash for build in doomed})
        removed = remove_template(
            folder, name, whole, lambda: session.output.note("waiting for a build to end")
        )
    value = [_view(template) for template in removed]
    session.output.success(value, f"{name} removed ({len(removed)} builds)")
    if force:
        session.output.note("Sandboxes and snapshots that were made from it cannot be started any more.")


def _refuse_needed(running: int, needed_hashes: Set[str]) -> None:
    if running:
        raise CommandError(f"{running} machines are running from it; --force removes it all the same")
    if needed_hashes:
        named = ", ".join(sorted(hash[:_HASH_DIGITS] for hash in needed_hashes))
        raise CommandError(
            f"sandboxes or snapshots were made from {named} and would be lost; --force removes it anyway"
        )


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        help="What sandboxes start from: list, get, delete; on this machine: build, import, rm."
    )
    group.command("list")(list_templates)
    group.command("ls", hidden=True)(list_templates)
    group.command("get")(snapshot.get_snapshot)
    group.command("delete")(snapshot.delete)
    group.command("build")(build)
    group.command("import")(import_image)
    group.command("rm")(remove)
    app.add_typer(group, name="template")
    app.add_typer(group, name="templates", hidden=True)


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


def _described(template: Template) -> str:
    return f"{template.name} {template.hash[:_HASH_DIGITS]} ({text.size(template.size_bytes)})"


def _view(template: Template) -> dict[str, object]:
    image = template.image
    return {
        "name": template.name,
        "hash": template.hash,
        "current": template.current,
        "description": template.description,
        "sizeBytes": template.size_bytes,
        "packages": template.package_count,
        "builtAt": template.built_at.isoformat(),
        "environment": dict(template.environment),
        "workdir": template.workdir,
        "image": image and {"source": image.source, "digest": image.digest, "user": image.user},
        "notes": list(image.notes) if image else [],
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
