"""Making a backup of a node, whether it runs or not."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from opencomputer.server.backups import keys as key_files
from opencomputer.server.backups.copying import Progress, nothing_told
from opencomputer.server.backups.errors import BackupDamaged, BackupError
from opencomputer.server.backups.manifest import DATABASE, Entry, Manifest, TemplateBuild
from opencomputer.server.backups.pinning import Pinned, pinned
from opencomputer.server.backups.vault import Reader, Writer, writing
from opencomputer.server.stores.artefacts.archive import pack
from opencomputer.server.templates.catalogue import DESCRIPTION_FILE, Template, list_templates

KEYS = "keys.json"
TEMPLATES = "templates"


@dataclass(frozen=True)
class BackupOptions:
    """`separate_keys` is a file for the private files, which are then not in the backup. With `passphrase`
    they are sealed, wherever they are."""

    separate_keys: Path | None = None
    passphrase: str | None = field(default=None, repr=False)
    with_templates: bool = False


@dataclass(frozen=True)
class Watcher:
    """Who is told how far it is: once how many bytes there are, then of each piece of them."""

    total: Callable[[int], None] = nothing_told
    progress: Progress = nothing_told


UNWATCHED = Watcher()


@dataclass(frozen=True)
class Made:
    """`new_bytes` is what earlier backups in the same place did not have."""

    manifest: Manifest
    new_bytes: int


@dataclass(frozen=True)
class NodePlace:
    """Where a node has what belongs to it, and which program asks."""

    data: Path
    templates: Path
    program: str


def create_backup(
    node: NodePlace, target: Path, options: BackupOptions = BackupOptions(), watcher: Watcher = UNWATCHED
) -> Made:
    """Raises BackupError, OSError. A backup that is not finished is none, and does no harm."""
    with pinned(node.data) as moment, _keys(moment, options) as keys, writing(target) as writer:
        templates = _needed_templates(node, moment)
        watcher.total(sum(_size(file) for file in [moment.database, *moment.files.values()]))
        making = _Making(writer, watcher.progress)
        making.put(DATABASE, moment.database)
        for path, file in sorted(moment.files.items()):
            making.put_once(path, file)
        if keys is not None:
            _put_keys(making, moment.folder, keys)
        included = _put_templates(making, moment.folder, templates) if options.with_templates else set[str]()
        now = datetime.now(UTC)
        manifest = Manifest(
            id=f"{now:%Y%m%dT%H%M%S.%fZ}-{secrets.token_hex(2)}",
            created_at=now.isoformat(timespec="seconds"),
            program=node.program,
            schema=moment.facts.schema,
            keys=_place_of_keys(options),
            entries=making.entries,
            templates=_builds(templates, included),
            missing=moment.missing,
            counts=moment.facts.counts,
        )
        writer.finish(manifest)
        return Made(manifest, making.new_bytes)


class _Making:
    def __init__(self, writer: Writer, progress: Progress) -> None:
        self._writer = writer
        self._progress = progress
        self.entries: list[Entry] = []
        self.new_bytes = 0

    def put(self, path: str, file: Path) -> None:
        entry = self._writer.put(path, file, self._progress)
        self.entries.append(entry)
        self.new_bytes += entry.size_bytes

    def known(self, path: str, size_bytes: int) -> bool:
        entry = self._writer.known(path, size_bytes)
        if entry is not None:
            self.entries.append(entry)
            self._progress(size_bytes)
        return entry is not None

    def put_once(self, path: str, file: Path) -> None:
        """Of a file whose content never changes under this name."""
        if not self.known(path, _size(file)):
            self.put(path, file)


@contextmanager
def _keys(moment: Pinned, options: BackupOptions) -> Generator[bytes | None]:
    """What of the keys goes into the backup. A file of their own goes again with a backup that fails."""
    content = key_files.to_bytes(moment.private, options.passphrase)
    if options.separate_keys is None:
        yield content
        return
    key_files.write_separately(content, options.separate_keys)
    try:
        yield None
    except BaseException:
        options.separate_keys.unlink(missing_ok=True)
        raise


def _place_of_keys(options: BackupOptions) -> str:
    if options.separate_keys is not None:
        return "separate"
    return "included" if options.passphrase is None else "sealed"


def _put_keys(making: _Making, folder: Path, content: bytes) -> None:
    file = folder / KEYS
    file.write_bytes(content)
    making.put(KEYS, file)


def _needed_templates(node: NodePlace, moment: Pinned) -> Mapping[tuple[str, str], Template | None]:
    """Builds that something saved stands on, and the current ones."""
    installed = {(each.name, each.hash): each for each in list_templates(node.templates)}
    current = {key for key, template in installed.items() if template.current}
    return {key: installed.get(key) for key in moment.facts.templates | current}


def _put_templates(
    making: _Making, folder: Path, templates: Mapping[tuple[str, str], Template | None]
) -> set[str]:
    included: set[str] = set()
    for template in (each for each in templates.values() if each is not None):
        archive = folder / "template.tar"
        with archive.open("wb") as stream:
            for chunk in pack(template.rootfs):
                stream.write(chunk)
        place = f"{TEMPLATES}/{template.name}/{template.hash}"
        making.put_once(f"{place}/rootfs.tar", archive)
        archive.unlink()
        making.put(f"{place}/{DESCRIPTION_FILE}", template.rootfs.parent / DESCRIPTION_FILE)
        included.add(template.hash)
    return included


def _builds(
    templates: Mapping[tuple[str, str], Template | None], included: set[str]
) -> Sequence[TemplateBuild]:
    return [
        TemplateBuild(name, hash, hash in included, template is not None and template.current)
        for (name, hash), template in sorted(templates.items(), key=lambda each: each[0])
    ]


def _size(file: Path) -> int:
    return file.stat().st_size


def newest(reader: Reader, wanted: str | None) -> Manifest:
    """The backup with this id, or the newest. Raises BackupError."""
    ids = reader.ids()
    if not ids:
        raise BackupError("there is no finished backup in it")
    if wanted is not None and wanted not in ids:
        raise BackupError(f"there is no backup {wanted}; there are {', '.join(ids)}")
    try:
        return reader.manifest(wanted or ids[-1])
    except BackupDamaged as error:
        if wanted is not None or len(ids) == 1:
            raise
        raise BackupDamaged(f"{error}; for the one before it give --backup {ids[-2]}") from error
