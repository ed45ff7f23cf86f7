"""Layers as sandboxes make them: random trees, and random deeds in a real overlay mount."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import stat
import subprocess
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from opencomputer.server.host.kernel import Unshare, unshare
from opencomputer.server.host.mounts import detach_propagation, mount_overlay
from tests.support.namespaces import call_in_thread

T = TypeVar("T")
_NAMES = ["a", "b", "c", "d", "e", "ä b"]
_TARGETS = ["a/b", "no/such/file", "/no/such/file"]
_OWNERS = [0, 1000, 70000]
_DETACH = 2


@dataclass(frozen=True)
class Seen:
    """Everything one can find out about a path, but its inode and times that depend on the mount."""

    mode: int
    owner: tuple[int, int]
    device: int
    size_bytes: int
    content: bytes
    changed_ns: int
    attributes: tuple[tuple[str, bytes], ...]
    same_as: str
    """The first path with the same inode."""

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)


View = dict[str, Seen]


def with_mounts(work: Callable[[], T]) -> T:
    """Run something that mounts. Its mounts are its own and go with it."""

    def separate() -> T:
        unshare(Unshare.MOUNTS)
        detach_propagation()
        return work()

    return call_in_thread(separate)


@contextmanager
def mounted(lower_bottom_first: Sequence[Path], scratch: Path) -> Generator[tuple[Path, Path]]:
    """The merged view of layers, and the folder to which what is done in it goes. Within `with_mounts`."""
    for name in ("upper", "work", "merged"):
        (scratch / name).mkdir(parents=True)
    mount_overlay(lower_bottom_first, scratch / "upper", scratch / "work", scratch / "merged")
    try:
        yield scratch / "merged", scratch / "upper"
    finally:
        ctypes.CDLL(None).umount2(os.fsencode(scratch / "merged"), _DETACH)


def make_layer(
    lower_bottom_first: Sequence[Path], target: Path, scratch: Path, chance: random.Random, deeds: int
) -> None:
    """Do things in a machine's files, and save its writable layer as a driver does. Within `with_mounts`."""
    with mounted(lower_bottom_first, scratch) as (merged, upper):
        for _ in range(deeds):
            _deed(merged, chance)
        subprocess.run(["cp", "-a", "--", f"{upper}/.", str(target)], check=True)
    shutil.rmtree(scratch)


def fill(folder: Path, chance: random.Random, deeds: int = 25) -> None:
    """A random tree."""
    folder.mkdir(exist_ok=True)
    for _ in range(deeds):
        _deed(folder, chance)


def look(lower_bottom_first: Sequence[Path], scratch: Path) -> View:
    """What a machine of these layers sees. Within `with_mounts`."""
    with mounted(lower_bottom_first, scratch) as (merged, _):
        view = view_of(merged)
    shutil.rmtree(scratch)
    return view


def view_of(folder: Path) -> View:
    view: View = {}
    inodes: dict[int, str] = {}
    for path in _paths(folder):
        status = path.lstat()
        name = f"/{path.relative_to(folder)}"
        first = inodes.setdefault(status.st_ino, name)
        view[name] = Seen(
            status.st_mode,
            (status.st_uid, status.st_gid),
            status.st_rdev,
            0 if _is_folder(path) else status.st_size,
            _content(path, status),
            status.st_mtime_ns,
            _attributes(path),
            first,
        )
    return view


def _content(path: Path, status: os.stat_result) -> bytes:
    if stat.S_ISLNK(status.st_mode):
        return os.readlink(os.fsencode(path))
    return path.read_bytes() if stat.S_ISREG(status.st_mode) else b""


def _attributes(path: Path) -> tuple[tuple[str, bytes], ...]:
    names = sorted(os.listxattr(path, follow_symlinks=False))
    return tuple((name, os.getxattr(path, name, follow_symlinks=False)) for name in names)


def _paths(folder: Path) -> Sequence[Path]:
    found: list[Path] = []
    for parent, folders, files in os.walk(folder):
        found += [Path(parent, name) for name in (*folders, *files)]
    return sorted(found)


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)


def _deed(top: Path, chance: random.Random) -> None:
    """One thing a program might do. The impossible, as moving a folder into itself, is not done."""
    paths = _paths(top)
    folders = [top, *(path for path in paths if _is_folder(path))]
    place = chance.choice(folders) / chance.choice(_NAMES)
    subject = chance.choice(paths) if paths else place
    deed = chance.choices([deed for deed, _ in _DEEDS], [weight for _, weight in _DEEDS])[0]
    try:
        deed(subject, place, chance)
    except OSError:
        pass


Deed = Callable[[Path, Path, random.Random], None]


def _write_to(path: Path, content: bytes, flags: int = os.O_TRUNC) -> None:
    """Never through a symbolic link, which may lead out of the tree, and never waiting at a FIFO."""
    flags |= os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    with os.fdopen(os.open(path, flags, 0o644), "wb") as file:
        file.write(content)


def _write(_subject: Path, place: Path, chance: random.Random) -> None:
    _write_to(place, bytes([chance.randrange(256)]) * chance.choice([0, 1, 5000]))


def _append(subject: Path, _place: Path, chance: random.Random) -> None:
    _write_to(subject, b"more" * chance.randrange(1, 4), os.O_APPEND)


def _write_alike(subject: Path, _place: Path, _chance: random.Random) -> None:
    if stat.S_ISREG(subject.lstat().st_mode):
        _write_to(subject, subject.read_bytes())


def _make_folder(_subject: Path, place: Path, _chance: random.Random) -> None:
    place.mkdir()


def _remove(subject: Path, _place: Path, _chance: random.Random) -> None:
    if _is_folder(subject):
        shutil.rmtree(subject)
    else:
        subject.unlink()


def _replace(subject: Path, place: Path, chance: random.Random) -> None:
    """A folder that comes back under its name is opaque; a file in its place, and the reverse, hide it."""
    was_folder = _is_folder(subject)
    _remove(subject, place, chance)
    if was_folder == (chance.random() < 0.6):
        subject.mkdir()
        _write_to(subject / chance.choice(_NAMES), b"in the new folder")
    else:
        _write_to(subject, b"in place of what was here")


def _move(subject: Path, place: Path, _chance: random.Random) -> None:
    subject.rename(place)


def _rename(subject: Path, _place: Path, chance: random.Random) -> None:
    subject.rename(subject.parent / chance.choice(_NAMES))


def _link(subject: Path, place: Path, _chance: random.Random) -> None:
    os.link(subject, place, follow_symlinks=False)


def _point(_subject: Path, place: Path, chance: random.Random) -> None:
    place.symlink_to(chance.choice(_TARGETS))


def _make_fifo(_subject: Path, place: Path, _chance: random.Random) -> None:
    os.mkfifo(place)


def _change_mode(subject: Path, _place: Path, chance: random.Random) -> None:
    if not subject.is_symlink():
        os.chmod(subject, chance.choice([0o755, 0o700, 0o4755, 0o644, 0o1777]))


def _change_owner(subject: Path, _place: Path, chance: random.Random) -> None:
    os.chown(subject, chance.choice(_OWNERS), chance.choice(_OWNERS), follow_symlinks=False)


def _change_time(subject: Path, _place: Path, chance: random.Random) -> None:
    moment = chance.randrange(1, 2_000_000_000) * 1_000_000_000 + chance.randrange(1_000_000_000)
    os.utime(subject, ns=(moment, moment), follow_symlinks=False)


def _attribute(subject: Path, _place: Path, chance: random.Random) -> None:
    os.setxattr(
        subject, f"user.{chance.choice('xyz')}", b"\0\n=" * chance.randrange(3), follow_symlinks=False
    )


_DEEDS: Sequence[tuple[Deed, int]] = (
    (_write, 5),
    (_append, 2),
    (_write_alike, 1),
    (_make_folder, 5),
    (_remove, 3),
    (_replace, 3),
    (_move, 5),
    (_rename, 4),
    (_link, 2),
    (_point, 1),
    (_make_fifo, 1),
    (_change_mode, 2),
    (_change_owner, 2),
    (_change_time, 2),
    (_attribute, 1),
)
