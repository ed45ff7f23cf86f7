"""Which paths differ between two stacks of layers that have their lower layers in common."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from opencomputer.server.domain.layers import Change, ChangeKind
from opencomputer.server.stores.artefacts.overlay import File, Folder, Found, Stack, names

MAX_CHANGES = 100_000
_COMPARED_BYTES = 1 << 20
"""Up to this size the content of files decides, above it their times."""

Place = File | Folder | None


def differences(base: Sequence[Path], before: Sequence[Path], after: Sequence[Path]) -> Sequence[Change]:
    """In the order of their paths, and not more than MAX_CHANGES. Blocks.

    A file counts as changed when its kind, owner, mode or content does; a folder when its owner or mode does.
    Folders nested deeper than a system call can name are left out.
    """
    common = len(base) + _common(before, after)
    comparison = _Comparison(Stack([*base, *before]), Stack([*base, *after]), common)
    return sorted(comparison.run(), key=lambda change: change.path)


def _common(before: Sequence[Path], after: Sequence[Path]) -> int:
    equal = [one == other for one, other in zip(before, after, strict=False)]
    return equal.index(False) if False in equal else len(equal)


class _Comparison:
    """Looks only at names in layers from number `common` upwards, and below folders that came or went."""

    def __init__(self, old: Stack, new: Stack, common: int) -> None:
        self._old = old
        self._new = new
        self._common = common
        self._waiting: list[tuple[bytes, Folder | None, Folder | None]] = []

    def run(self) -> Sequence[Change]:
        found: list[Change] = []
        self._waiting.append((b"", self._old.top(), self._new.top()))
        while self._waiting and len(found) < MAX_CHANGES:
            path, old, new = self._waiting.pop()
            found.extend(self._inside(path, old, new))
        return found[:MAX_CHANGES]

    def _inside(self, path: bytes, old: Folder | None, new: Folder | None) -> Iterator[Change]:
        try:
            for name in sorted(self._names(old, new)):
                before = _visible(self._old.look_up(old, name)) if old else None
                after = _visible(self._new.look_up(new, name)) if new else None
                yield from self._compare(path + b"/" + name, before, after)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise

    def _names(self, old: Folder | None, new: Folder | None) -> set[bytes]:
        if old is None or new is None or self._shared(old) != self._shared(new):
            return {name for each in (old, new) if each is not None for name in names(each)}
        own = [part for part in (*old.parts, *new.parts) if part.layer >= self._common]
        return names(Folder(tuple(own), None))

    def _shared(self, folder: Folder) -> Sequence[object]:
        return [part for part in folder.parts if part.layer < self._common]

    def _compare(self, path: bytes, old: Place, new: Place) -> Iterator[Change]:
        if isinstance(old, Folder) or isinstance(new, Folder):
            self._waiting.append(
                (path, old if isinstance(old, Folder) else None, new if isinstance(new, Folder) else None)
            )
        if old is None or new is None:
            if old is not None:
                yield _change(path, ChangeKind.DELETED, old, size_bytes=0)
            elif new is not None:
                yield _change(path, ChangeKind.ADDED, new, size_bytes=_size(new))
        elif _differ(old, new):
            yield _change(path, ChangeKind.CHANGED, new, size_bytes=_size(new))


def _visible(found: Found) -> Place:
    return found if isinstance(found, File | Folder) else None


def _change(path: bytes, kind: ChangeKind, place: File | Folder, *, size_bytes: int) -> Change:
    """Names need not be text in a file system, but an answer is."""
    return Change(path.decode(errors="backslashreplace"), kind, size_bytes, isinstance(place, Folder))


def _path(place: File | Folder) -> bytes:
    return place.part.path if isinstance(place, File) else place.parts[0].path


def _size(place: File | Folder) -> int:
    return os.lstat(_path(place)).st_size if isinstance(place, File) else 0


def _differ(old: File | Folder, new: File | Folder) -> bool:
    if _path(old) == _path(new):
        return False
    one, other = os.lstat(_path(old)), os.lstat(_path(new))
    if (one.st_mode, one.st_uid, one.st_gid) != (other.st_mode, other.st_uid, other.st_gid):
        return True
    if isinstance(old, Folder):
        return False
    if (one.st_size, one.st_rdev) != (other.st_size, other.st_rdev):
        return True
    if stat.S_ISLNK(one.st_mode):
        return os.readlink(_path(old)) != os.readlink(_path(new))
    if not stat.S_ISREG(one.st_mode) or (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino):
        return False
    if one.st_size > _COMPARED_BYTES:
        return one.st_mtime_ns != other.st_mtime_ns
    return Path(os.fsdecode(_path(old))).read_bytes() != Path(os.fsdecode(_path(new))).read_bytes()
