"""What a backup says of itself. A backup without its manifest, which is written last, is none."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any, cast

from opencomputer.server.backups.errors import BackupDamaged, BackupError

FORMAT = 1
DATABASE = "opencomputer.db"
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Entry:
    """One file: where it belongs in a data folder (or `templates/…`), its size and its SHA-256."""

    path: str
    size_bytes: int
    digest: str


@dataclass(frozen=True)
class TemplateBuild:
    """A build of a template that something in the backup stands on."""

    name: str
    hash: str
    included: bool
    current: bool


@dataclass(frozen=True)
class Manifest:
    """`keys` says where the private files are: `included`, `separate` or `sealed` with a passphrase.

    `missing` names artefacts that the database refers to and the node itself no longer had.
    """

    id: str
    created_at: str
    program: str
    schema: str
    keys: str
    entries: Sequence[Entry]
    templates: Sequence[TemplateBuild] = ()
    missing: Sequence[str] = ()
    counts: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def size_bytes(self) -> int:
        return sum(entry.size_bytes for entry in self.entries)

    def entry(self, path: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.path == path), None)

    def to_bytes(self) -> bytes:
        content = {"format": FORMAT, **asdict(self)}
        return _canonical({**content, "sha256": hashlib.sha256(_canonical(content)).hexdigest()})


def read_manifest(content: bytes, name: str) -> Manifest:
    """Raises BackupDamaged, and BackupError for a format of a newer program."""
    try:
        parsed = cast(dict[str, Any], json.loads(content))
        format = int(parsed["format"])
        said = str(parsed.pop("sha256"))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BackupDamaged(f"{name} is no manifest of a backup, or is damaged") from None
    if format > FORMAT:
        raise BackupError(
            f"{name} was written by a newer OpenComputer ({parsed.get('program')}): it has format {format}, "
            f"and this program reads formats up to {FORMAT}. Restore it with that version or a newer one"
        )
    if said != hashlib.sha256(_canonical(parsed)).hexdigest():
        raise BackupDamaged(f"{name} was changed after it was written")
    return _manifest(parsed)


def _manifest(parsed: Mapping[str, Any]) -> Manifest:
    entries = [Entry(each["path"], each["size_bytes"], each["digest"]) for each in parsed["entries"]]
    for entry in entries:
        path = PurePosixPath(entry.path)
        if path.is_absolute() or ".." in path.parts or not _DIGEST.fullmatch(entry.digest):
            raise BackupDamaged(f"a backup must not contain {entry.path!r}")
    templates = [TemplateBuild(**each) for each in parsed["templates"]]
    for name in (name for each in templates for name in (each.name, each.hash)):
        if "/" in name or name in ("", ".", ".."):
            raise BackupDamaged(f"a template cannot be called {name!r}")
    return Manifest(
        id=parsed["id"],
        created_at=parsed["created_at"],
        program=parsed["program"],
        schema=parsed["schema"],
        keys=parsed["keys"],
        entries=entries,
        templates=templates,
        missing=parsed["missing"],
        counts=parsed["counts"],
    )


def _canonical(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
