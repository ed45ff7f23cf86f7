"""`oc backup …`: copies of a node on this machine: made while it runs, checked, restored."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Mapping, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import typer

from opencomputer.cli import text
from opencomputer.cli.failures import CommandError
from opencomputer.cli.local_server import local_server
from opencomputer.cli.output import Output
from opencomputer.cli.session import session_of

_PLACE = typer.Argument(
    ..., help="A folder for many backups, or a file that ends in .tar.", show_default=False
)
_DATA = typer.Option(None, help="The node's data folder.", show_default=False)
_TEMPLATES = typer.Option(None, help="The folder of its templates.", show_default=False)
_BACKUP = typer.Option(
    None, "--backup", metavar="ID", help="Which one of several.", show_default="the newest"
)
_PASSPHRASE = typer.Option(
    None, "--passphrase-file", help="A file with the passphrase of the keys.", show_default=False
)
_HEADERS = ("ID", "MADE", "SIZE", "PROGRAM", "DATABASE", "KEYS")
_SECONDS_BETWEEN = 0.2
_OPEN_KEYS = (
    "This backup contains the keys to its secrets: whoever can read it can read them. Keep them elsewhere "
    "with --keys FILE, or seal them with --passphrase-file FILE."
)


class Manifest(Protocol):
    """What the server says of one backup."""

    @property
    def id(self) -> str: ...
    @property
    def created_at(self) -> str: ...
    @property
    def program(self) -> str: ...
    @property
    def schema(self) -> str: ...
    @property
    def keys(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def entries(self) -> Sized: ...
    @property
    def counts(self) -> Mapping[str, int]: ...
    @property
    def missing(self) -> Sequence[str]: ...


def create(
    context: typer.Context,
    target: Path = _PLACE,
    data: Path | None = _DATA,
    templates: Path | None = _TEMPLATES,
    keys: Path | None = typer.Option(
        None, "--keys", help="Write the keys to this file instead of into the backup.", show_default=False
    ),
    passphrase_file: Path | None = _PASSPHRASE,
    with_templates: bool = typer.Option(False, "--with-templates", help="Include the builds of templates."),
) -> None:
    """Copy a node, which may be running, as it is at one moment. A folder gets only what it does not have."""
    output = session_of(context).output
    with _explained():
        from opencomputer.server.backups.create import BackupOptions, Watcher, create_backup

        options = BackupOptions(keys, _passphrase(passphrase_file), with_templates)
        with _progress(output, "copied") as progress:
            watcher = Watcher(progress.begin, progress.advance)
            made = create_backup(_node(data, templates), target, options, watcher)
    manifest = made.manifest
    for each in manifest.missing:
        output.note(f"Not in the backup, because the node itself does not have it any more: {each}")
    if manifest.keys == "included":
        output.note(_OPEN_KEYS)
    value = {**_view(manifest), "path": str(target), "newBytes": made.new_bytes}
    said = f"backup {manifest.id} in {target}: {text.size(manifest.size_bytes)}"
    output.success(value, f"{said}, of which {text.size(made.new_bytes)} new")


def restore(
    context: typer.Context,
    source: Path = _PLACE,
    data: Path | None = _DATA,
    templates: Path | None = _TEMPLATES,
    backup: str | None = _BACKUP,
    keys: Path | None = typer.Option(
        None, "--keys", help="The file the keys were written to.", show_default=False
    ),
    passphrase_file: Path | None = _PASSPHRASE,
) -> None:
    """Put a backup into an empty data folder. Start the node afterwards; it migrates what is older."""
    output = session_of(context).output
    with _explained():
        from opencomputer.server.backups.create import Watcher
        from opencomputer.server.backups.restore import RestoreOptions, restore_backup

        node = _node(data, templates)
        options = RestoreOptions(backup, keys, _passphrase(passphrase_file))
        with _progress(output, "restored") as progress:
            restored = restore_backup(source, node, options, Watcher(progress.begin, progress.advance))
    for name in restored.absent_templates:
        output.note(
            f"Saved sandboxes stand on template {name}, which this machine does not have: see "
            "docs/operating/backup.md."
        )
    if restored.stopped_sandboxes:
        output.note(
            f"Sandboxes that ran when it was made: {restored.stopped_sandboxes}. They are stopped now: "
            "a backup has no machines. `oc checkpoint spawn` goes on from their checkpoints."
        )
    value = {
        **_view(restored.manifest),
        "data": str(node.data),
        "missingTemplates": list(restored.absent_templates),
        "stoppedSandboxes": restored.stopped_sandboxes,
    }
    output.success(value, f"backup {restored.manifest.id} restored into {node.data}")


def verify(context: typer.Context, source: Path = _PLACE, backup: str | None = _BACKUP) -> None:
    """Read all of a backup and compare it with what was put there."""
    output = session_of(context).output
    with _explained():
        from opencomputer.server.backups.verify import verify_backup

        with _progress(output, "read") as progress:
            verified = verify_backup(source, backup, progress.advance)
    if verified.faults:
        shown = "; ".join(verified.faults[:5])
        raise CommandError(
            f"backup {verified.manifest.id} is damaged: {shown}", hint=_mending(source, verified.digests)
        )
    value: dict[str, Any] = {**_view(verified.manifest), "faults": []}
    output.success(
        value, f"backup {verified.manifest.id} is whole: {text.size(verified.manifest.size_bytes)}"
    )


def list_all(context: typer.Context, source: Path = _PLACE) -> None:
    """List the backups in a folder or file."""
    output = session_of(context).output
    with _explained():
        from opencomputer.server.backups.verify import list_backups

        listed = list_backups(source)
    for each in listed.damaged:
        output.note(f"Cannot be read: {each}")
    found = listed.manifests
    rows = [
        [each.id, each.created_at, text.size(each.size_bytes), each.program, each.schema, each.keys]
        for each in found
    ]
    output.table([_view(each) for each in found], _HEADERS, rows, "No backups.")


def prune(
    context: typer.Context,
    source: Path = _PLACE,
    keep: int = typer.Option(..., "--keep", min=1, help="How many of the newest stay.", show_default=False),
) -> None:
    """Remove all but the newest backups of a folder, and what only they had."""
    with _explained():
        from opencomputer.server.backups.vault import FolderVault

        removed, freed = FolderVault(source).prune(keep)
    output = session_of(context).output
    output.success({"removed": removed, "freedBytes": freed}, f"removed {removed}, freed {text.size(freed)}")


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Backups of a node on this machine: create, verify, list, prune, restore.")
    for name, command in (
        ("create", create),
        ("verify", verify),
        ("list", list_all),
        ("prune", prune),
        ("restore", restore),
    ):
        group.command(name)(command)
    app.add_typer(group, name="backup")


def _mending(source: Path, digests: Sequence[str]) -> str:
    if not source.is_dir() or not digests:
        return "Make another backup while the node has everything."
    more = f" and {len(digests) - 1} more" if len(digests) > 1 else ""
    what = f"{source}/objects/{digests[0]}{more}"
    return f"Remove {what}: the next `oc backup create` copies what is not there, if the node still has it."


@contextmanager
def _explained() -> Generator[None]:
    with local_server():
        from opencomputer.server.backups.errors import BackupError
        from opencomputer.server.domain.errors import OpenComputerError
        from opencomputer.server.settings import SettingsError

        try:
            yield
        except (BackupError, OpenComputerError, SettingsError) as error:
            raise CommandError(str(error)) from error
        except PermissionError:
            raise
        except OSError as error:
            raise CommandError(f"{error.filename or 'a file'}: {error.strerror}") from error


def _node(data: Path | None, templates: Path | None) -> Any:
    from opencomputer.sdk.version import installed_version
    from opencomputer.server.backups.create import NodePlace
    from opencomputer.server.settings import Overrides, load_settings

    settings = load_settings(os.environ, Overrides(data=data, templates=templates))
    return NodePlace(settings.data, settings.templates, installed_version())


def _passphrase(file: Path | None) -> str | None:
    if file is None:
        return None
    passphrase = file.read_text().strip()
    if not passphrase:
        raise CommandError(f"{file} is empty")
    return passphrase


def _view(manifest: Manifest) -> dict[str, Any]:
    return {
        "id": manifest.id,
        "createdAt": manifest.created_at,
        "program": manifest.program,
        "schema": manifest.schema,
        "bytes": manifest.size_bytes,
        "files": len(manifest.entries),
        "keys": manifest.keys,
        "counts": dict(manifest.counts),
        "missing": list(manifest.missing),
    }


class _Bytes:
    """Says on standard error how far it is, a few times a second, to whoever is watching."""

    def __init__(self, output: Output, verb: str) -> None:
        self._shown = output.shows_progress
        self._verb = verb
        self._total = 0
        self._done = 0
        self._told_at = 0.0

    def begin(self, total: int) -> None:
        self._total = total

    def advance(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if self._shown and now - self._told_at > _SECONDS_BETWEEN:
            self._told_at = now
            of = f" of {text.size(self._total)}" if self._total else ""
            print(f"\r\x1b[K{text.size(self._done)}{of} {self._verb}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@contextmanager
def _progress(output: Output, verb: str) -> Generator[_Bytes]:
    progress = _Bytes(output, verb)
    try:
        yield progress
    finally:
        progress.end()
