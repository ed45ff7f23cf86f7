"""Where backups are kept: a folder that holds many and shares what they have in common, or one tar file.

FOLDER/objects/DIGEST        each content once
FOLDER/backups/ID.json       a manifest; written last, so that what is not whole has none
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol

from opencomputer.server.backups.copying import (
    Progress,
    copy,
    digest_of,
    failing_at,
    nothing_told,
    sync_folder,
)
from opencomputer.server.backups.errors import BackupDamaged, BackupError
from opencomputer.server.backups.manifest import Entry, Manifest, read_manifest
from opencomputer.server.host.locks import Held, exclusive_now

_OBJECTS = "objects"
_BACKUPS = "backups"
TAR = ".tar"


class Writer(Protocol):
    """A backup that is being made."""

    def known(self, path: str, size_bytes: int) -> Entry | None:
        """What an earlier backup here has of a file that never changes."""
        ...

    def put(self, path: str, file: Path, progress: Progress = nothing_told) -> Entry: ...
    def finish(self, manifest: Manifest) -> None: ...


class Reader(Protocol):
    """Backups that were made."""

    def ids(self) -> Sequence[str]:
        """Oldest first."""
        ...

    def manifest(self, id: str) -> Manifest:
        """Of one of them. Raises BackupDamaged, and BackupError for that of a newer program."""
        ...

    def open(self, digest: str) -> IO[bytes]:
        """Raises BackupDamaged when it is not there."""
        ...


@contextmanager
def writing(target: Path) -> Generator[Writer]:
    """Raises BackupError. A tar file that does not come to its end is not there."""
    if target.suffix == TAR:
        with _writing_tar(target) as writer:
            yield writer
        return
    if target.exists() and not target.is_dir():
        raise BackupError(f"{target} is no folder; a single file must be named …{TAR}")
    for folder in (target, target / _OBJECTS, target / _BACKUPS):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(target):
        vault = FolderVault(target)
        vault.clear()
        yield vault


@contextmanager
def reading(source: Path) -> Generator[Reader]:
    """Raises BackupError."""
    if source.is_dir():
        yield FolderVault(source)
        return
    try:
        archive = tarfile.open(source, "r:")  # noqa: SIM115 - closed below
    except (OSError, tarfile.TarError) as error:
        raise BackupError(f"{source} cannot be read as a backup: {error}") from error
    with archive:
        yield _TarReader(source, archive)


@contextmanager
def _alone(folder: Path) -> Generator[None]:
    try:
        with exclusive_now(folder / "lock"):
            yield
    except Held:
        raise BackupError(f"another backup is being made in {folder}") from None


class FolderVault:
    """Both a Writer and a Reader."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._objects = folder / _OBJECTS
        if not self._objects.is_dir():
            raise BackupError(f"{folder} holds no backups")
        self._earlier: dict[str, Entry] | None = None

    def ids(self) -> Sequence[str]:
        return sorted(file.stem for file in (self._folder / _BACKUPS).glob("[!.]*.json"))

    def manifest(self, id: str) -> Manifest:
        file = self._folder / _BACKUPS / f"{id}.json"
        return read_manifest(file.read_bytes(), str(file))

    def clear(self) -> None:
        """Remove what a backup that was cut short has left. Only for who is alone here."""
        for file in [*self._objects.glob(".draft-*"), *(self._folder / _BACKUPS).glob(".*")]:
            file.unlink()

    def open(self, digest: str) -> IO[bytes]:
        try:
            return open(self._objects / digest, "rb")
        except FileNotFoundError:
            raise BackupDamaged(f"{self._objects / digest} is missing") from None

    def known(self, path: str, size_bytes: int) -> Entry | None:
        if self._earlier is None:
            self._earlier = {}
            for id in self.ids():
                # One that is damaged is no reason to make no others.
                with suppress(BackupDamaged):
                    self._earlier |= {entry.path: entry for entry in self.manifest(id).entries}
        entry = self._earlier.get(path)
        usable = entry is not None and entry.size_bytes == size_bytes and self._has(entry)
        return entry if usable else None

    def _has(self, entry: Entry) -> bool:
        try:
            return (self._objects / entry.digest).stat().st_size == entry.size_bytes
        except FileNotFoundError:
            return False

    def put(self, path: str, file: Path, progress: Progress = nothing_told) -> Entry:
        draft = self._objects / f".draft-{os.getpid()}"
        try:
            with open(file, "rb") as source:
                digest, size = copy(source, draft, progress)
            draft.replace(self._objects / digest)
        finally:
            draft.unlink(missing_ok=True)
        return Entry(path, size, digest)

    def finish(self, manifest: Manifest) -> None:
        sync_folder(self._objects)
        draft = self._folder / _BACKUPS / f".{manifest.id}"
        copy(io.BytesIO(manifest.to_bytes()), draft)
        draft.replace(self._folder / _BACKUPS / f"{manifest.id}.json")
        sync_folder(self._folder / _BACKUPS)

    def prune(self, keep: int) -> tuple[int, int]:
        """Remove all but the newest backups and what only they had. Returns how many, and how many bytes.

        Raises BackupError when one that stays is damaged, and removes nothing: what it has is not known.
        """
        with _alone(self._folder):
            ids = self.ids()
            gone = ids[: max(0, len(ids) - keep)]
            kept = [self.manifest(id) for id in ids[len(gone) :]]
            for id in gone:
                (self._folder / _BACKUPS / f"{id}.json").unlink()
            wanted = {entry.digest for manifest in kept for entry in manifest.entries}
            freed = 0
            for file in self._objects.iterdir():
                if file.name not in wanted:
                    freed += file.stat().st_size
                    file.unlink()
        return len(gone), freed


@contextmanager
def _writing_tar(target: Path) -> Generator[Writer]:
    if target.exists():
        raise BackupError(f"{target} exists already")
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.partial")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        with open(os.open(draft, flags, 0o600), "wb") as stream:
            with tarfile.open(fileobj=stream, mode="w:", format=tarfile.PAX_FORMAT) as archive:
                yield _TarWriter(archive, target)
            with failing_at(target):
                stream.flush()
                os.fsync(stream.fileno())
        draft.rename(target)
        sync_folder(target.parent)
    finally:
        draft.unlink(missing_ok=True)


class _TarWriter:
    def __init__(self, archive: tarfile.TarFile, target: Path) -> None:
        self._archive = archive
        self._target = target
        self._written: set[str] = set()

    def known(self, path: str, size_bytes: int) -> Entry | None:
        return None

    def put(self, path: str, file: Path, progress: Progress = nothing_told) -> Entry:
        entry = Entry(path, file.stat().st_size, digest_of(file))
        if entry.digest not in self._written:
            self._written.add(entry.digest)
            with open(file, "rb") as source, failing_at(self._target):
                self._archive.addfile(_member(f"{_OBJECTS}/{entry.digest}", entry.size_bytes), source)
        progress(entry.size_bytes)
        return entry

    def finish(self, manifest: Manifest) -> None:
        content = manifest.to_bytes()
        self._archive.addfile(_member(f"{_BACKUPS}/{manifest.id}.json", len(content)), io.BytesIO(content))


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    return member


class _TarReader:
    def __init__(self, path: Path, archive: tarfile.TarFile) -> None:
        self._path = path
        self._archive = archive
        try:
            self._members: Mapping[str, tarfile.TarInfo] = {each.name: each for each in archive.getmembers()}
        except (OSError, tarfile.TarError) as error:
            raise BackupDamaged(f"{path} is damaged: {error}") from error

    def ids(self) -> Sequence[str]:
        names = (name for name in self._members if name.startswith(f"{_BACKUPS}/"))
        return sorted(name.removeprefix(f"{_BACKUPS}/").removesuffix(".json") for name in names)

    def manifest(self, id: str) -> Manifest:
        name = f"{_BACKUPS}/{id}.json"
        return read_manifest(self._content(name).read(), f"{self._path}: {name}")

    def open(self, digest: str) -> IO[bytes]:
        return self._content(f"{_OBJECTS}/{digest}")

    def _content(self, name: str) -> IO[bytes]:
        member = self._members.get(name)
        content = None if member is None else self._archive.extractfile(member)
        if content is None:
            raise BackupDamaged(f"{self._path} has no {name}: it is not whole")
        return content
