"""Reading a whole backup and comparing it with what its manifest says."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.backups.copying import Progress, copy, nothing_told
from opencomputer.server.backups.create import newest
from opencomputer.server.backups.errors import BackupDamaged
from opencomputer.server.backups.manifest import DATABASE, Manifest
from opencomputer.server.backups.vault import Reader, reading
from opencomputer.server.stores.sql.copies import problems_of

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Verified:
    """`faults` is empty when everything is as it was put there, and the database is sound."""

    manifest: Manifest
    faults: Sequence[str]


def list_backups(source: Path) -> Sequence[Manifest]:
    """Oldest first. Raises BackupError."""
    with reading(source) as reader:
        return reader.manifests()


def verify_backup(source: Path, wanted: str | None = None, progress: Progress = nothing_told) -> Verified:
    """Raises BackupError when there is no such backup, or its manifest is damaged."""
    with reading(source) as reader:
        manifest = newest(reader.manifests(), wanted)
        faults = [
            f"{entry.path}: {fault}"
            for entry in manifest.entries
            if (fault := _fault(reader, entry.digest, progress)) is not None
        ]
        if not faults:
            faults += [f"{DATABASE}: {each}" for each in _database_faults(reader, manifest)]
    return Verified(manifest, faults)


def _fault(reader: Reader, digest: str, progress: Progress) -> str | None:
    found = hashlib.sha256()
    try:
        with reader.open(digest) as content:
            while block := content.read(_BLOCK):
                found.update(block)
                progress(len(block))
    except BackupDamaged as error:
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
