"""Putting a backup into an empty data folder. What is not finished says so, and can be begun anew."""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from opencomputer.server.backups import keys as key_files
from opencomputer.server.backups.copying import copy, sync_folder
from opencomputer.server.backups.create import KEYS, TEMPLATES, UNWATCHED, NodePlace, Watcher, newest
from opencomputer.server.backups.errors import BackupDamaged, BackupError, TargetInUse
from opencomputer.server.backups.manifest import DATABASE, Entry, Manifest
from opencomputer.server.backups.vault import Reader, reading
from opencomputer.server.host.locks import Held, exclusive_now
from opencomputer.server.host.trees import remove_tree
from opencomputer.server.identity import LOCK, UNFINISHED, new_tag
from opencomputer.server.stores.artefacts.archive import unpack
from opencomputer.server.stores.sql.copies import forget_machines, known_schemas, problems_of
from opencomputer.server.templates.catalogue import (
    CURRENT,
    DESCRIPTION_FILE,
    HALF_BUILT_PREFIX,
    find_template,
    list_templates,
    make_current,
)

_BLOCK = 4 << 20
_NOTHING = frozenset({LOCK, "lost+found"})
"""What a folder has and is empty all the same: the disk's own, and the lock of a restore that was killed."""


@dataclass(frozen=True)
class RestoreOptions:
    """`backup` is the id of one of several; the newest otherwise."""

    backup: str | None = None
    keys: Path | None = None
    passphrase: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Restored:
    """`absent_templates` are builds that saved sandboxes stand on and this host does not have. So many
    sandboxes ran when the backup was made: their machines are not in it, and the node finds them stopped."""

    manifest: Manifest
    absent_templates: tuple[str, ...]
    stopped_sandboxes: int


def restore_backup(
    source: Path, node: NodePlace, options: RestoreOptions = RestoreOptions(), watcher: Watcher = UNWATCHED
) -> Restored:
    """Raises TargetInUse, BackupDamaged, BackupError, OSError.

    A node does not start on a folder that is not finished; the next restore clears it and begins anew.
    """
    with reading(source) as reader:
        manifest = newest(reader, options.backup)
        _check_version(manifest)
        private = _private(reader, manifest, options)
        with _claimed(node.data, manifest):
            watcher.total(manifest.size_bytes)
            _fill(reader, manifest, node, watcher)
            _write_private(node.data, private)
            stopped = _place_database(reader, manifest, node.data)
            sync_folder(node.data)
    present = {(each.name, each.hash) for each in list_templates(node.templates)}
    needed = ((each.name, each.hash) for each in manifest.templates)
    absent = tuple(f"{name}/{hash}" for name, hash in needed if (name, hash) not in present)
    return Restored(manifest, absent, stopped)


def _check_version(manifest: Manifest) -> None:
    known = known_schemas()
    if manifest.schema not in known:
        raise BackupError(
            f"this backup was made by OpenComputer {manifest.program} with database version "
            f"{manifest.schema}; this program knows versions up to {known[-1]}. "
            "Restore it with that version of OpenComputer or a newer one"
        )


def _private(reader: Reader, manifest: Manifest, options: RestoreOptions) -> Mapping[str, bytes]:
    if options.keys is not None:
        return key_files.from_bytes(options.keys.read_bytes(), options.passphrase)
    entry = manifest.entry(KEYS)
    if entry is None:
        raise BackupError("the keys of this backup were kept elsewhere: name their file with --keys")
    _check(reader, entry)
    with reader.open(entry.digest) as content:
        return key_files.from_bytes(content.read(), options.passphrase)


def _check(reader: Reader, entry: Entry) -> None:
    with reader.open(entry.digest) as content:
        found = hashlib.sha256()
        while block := content.read(_BLOCK):
            found.update(block)
    _compare(entry, found.hexdigest())


def _compare(entry: Entry, digest: str) -> None:
    if digest != entry.digest:
        raise BackupDamaged(f"{entry.path} in the backup is damaged: its content is not what was put there")


class _claimed:
    """The target while it is filled: locked, and marked as unfinished until the end was reached."""

    def __init__(self, data: Path, manifest: Manifest) -> None:
        self._data = data
        self._marker = data / UNFINISHED
        self._manifest = manifest
        self._lock = exclusive_now(data / LOCK)

    def __enter__(self) -> None:
        self._data.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._refuse_what_is_used()
        try:
            self._lock.__enter__()
        except Held:
            raise TargetInUse(f"{self._data} is being restored into, or used by a server") from None
        try:
            self._begin()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise

    def _begin(self) -> None:
        # Again, now that no node can start here: one may have, and ended, in between.
        self._refuse_what_is_used()
        # The marker is there before anything else, so that a folder that has it was never a node's.
        copy(io.BytesIO(json.dumps({"backup": self._manifest.id}).encode()), self._marker)
        sync_folder(self._data)
        for name in os.listdir(self._data):
            if name != UNFINISHED and name not in _NOTHING:
                _remove(self._data / name)

    def _refuse_what_is_used(self) -> None:
        found = sorted(name for name in os.listdir(self._data) if name not in _NOTHING)
        if found and UNFINISHED not in found:
            raise TargetInUse(
                f"{self._data} is not empty (it has {', '.join(found[:3])}). A backup is restored into an "
                "empty folder only: move this one away, or name another with --data"
            )

    def __exit__(self, *raised: object) -> None:
        try:
            if raised[0] is None:
                self._marker.unlink()
                sync_folder(self._data)
        finally:
            self._lock.__exit__(None, None, None)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink()


def _fill(reader: Reader, manifest: Manifest, node: NodePlace, watcher: Watcher) -> None:
    folders: set[Path] = set()
    for entry in manifest.entries:
        if entry.path in (DATABASE, KEYS) or entry.path.startswith(f"{TEMPLATES}/"):
            continue
        target = node.data / entry.path
        if target.parent not in folders:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folders.add(target.parent)
        _copy(reader, entry, target, watcher)
    for folder in folders:
        sync_folder(folder)
    _fill_templates(reader, manifest, node.templates)


def _copy(reader: Reader, entry: Entry, target: Path, watcher: Watcher = UNWATCHED) -> None:
    with closing(reader.open(entry.digest)) as content:
        digest, _ = copy(content, target, watcher.progress)
    _compare(entry, digest)


def _write_private(data: Path, private: Mapping[str, bytes]) -> None:
    """The node is the same one but for its name on the host, where the old one may still have machines."""
    for name, content in private.items():
        if name == "node.json":
            content = json.dumps({**json.loads(content), "tag": new_tag()}, indent=2).encode()
        copy(io.BytesIO(content), data / name)


def _place_database(reader: Reader, manifest: Manifest, data: Path) -> int:
    """Returns how many sandboxes lose their machines by it."""
    entry = manifest.entry(DATABASE)
    if entry is None:
        raise BackupDamaged("this backup has no database")
    draft = data / f".{DATABASE}"
    _copy(reader, entry, draft)
    if problems := problems_of(draft, quick=True):
        raise BackupDamaged(f"the database in this backup is damaged: {problems[0]}")
    lost = forget_machines(draft)
    draft.replace(data / DATABASE)
    return lost


def _fill_templates(reader: Reader, manifest: Manifest, templates: Path) -> None:
    """Builds that this host does not have. Where a name has a current build already, that stays."""
    for build in manifest.templates:
        place = f"{TEMPLATES}/{build.name}/{build.hash}"
        archive = manifest.entry(f"{place}/rootfs.tar")
        description = manifest.entry(f"{place}/{DESCRIPTION_FILE}")
        if (
            archive is None
            or description is None
            or find_template(templates, build.name, build.hash) is not None
        ):
            continue
        _check(reader, archive)
        folder = templates / build.name
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f"{HALF_BUILT_PREFIX}{build.hash}-{secrets.token_hex(4)}"
        try:
            (draft / "rootfs").mkdir(parents=True)
            with reader.open(archive.digest) as content:
                unpack(iter(lambda: content.read(_BLOCK), b""), draft / "rootfs")
            _copy(reader, description, draft / DESCRIPTION_FILE)
            draft.rename(folder / build.hash)
        finally:
            remove_tree(draft)
        if build.current and not (folder / CURRENT).exists():
            make_current(templates, build.name, build.hash)
