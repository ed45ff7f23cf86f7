"""Reading a whole backup and comparing it with what its manifest says."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.backups.copying import Progress, copy, nothing_told
from opencomputer.server.backups.create import newest
from opencomputer.server.backups.errors import BackupDamaged, BackupError
from opencomputer.server.backups.manifest import DATABASE, Manifest
from opencomputer.server.backups.vault import Reader, reading
from opencomputer.server.stores.sql.copies import problems_of

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Verified:
    """`faults` is empty when everything is as it was put there, and the database is sound.

    `digests` are those of what is damaged or missing.
    """

    manifest: Manifest
    faults: Sequence[str]
    digests: Sequence[str] = ()


@dataclass(frozen=True)
class Listed:
    """The backups of one place, oldest first. `damaged` says of each that cannot be read why."""

    manifests: Sequence[Manifest]
    damaged: Sequence[str]


def list_backups(source: Path) -> Listed:
    """Raises BackupError when there is no place of backups."""
    manifests: list[Manifest] = []
    damaged: list[str] = []
    with reading(source) as reader:
        for id in reader.ids():
            try:
                manifests.append(reader.manifest(id))
            except BackupError as error:
                damaged.append(str(error))
    return Listed(manifests, damaged)


def verify_backup(source: Path, wanted: str | None = None, progress: Progress = nothing_told) -> Verified:
    """Raises BackupError when there is no such backup, or its manifest is damaged."""
    with reading(source) as reader:
        manifest = newest(reader, wanted)
        found = [(entry, _fault(reader, entry.digest, progress)) for entry in manifest.entries]
        faults = [f"{entry.path}: {fault}" for entry, fault in found if fault is not None]
        digests = [entry.digest for entry, fault in found if fault is not None]
        if not faults:
            faults += [f"{DATABASE}: {each}" for each in _database_faults(reader, manifest)]
    return Verified(manifest, faults, digests)


def _fault(reader: Reader, digest: str, progress: Progress) -> str | None:
    found = hashlib.sha256()
    try:
        with reader.open(digest) as content:
            while block := content.read(_BLOCK):
                found.update(block)
                progress(len(block))
    except (BackupDamaged, OSError) as error:
        return str(error)
    return None if found.hexdigest() == digest else "its content is not what was put there"


def _database_faults(reader: Reader, manifest: Manifest) -> Sequence[str]:
    entry = manifest.entry(DATABASE)
    if entry is None:
        return ["is missing"]
    with (
        tempfile.TemporaryDirectory(prefix="opencomputer-verify-") as folder,
        reader.open(entry.digest) as content,
    ):
        copy(content, Path(folder, DATABASE))
        return problems_of(Path(folder, DATABASE))
