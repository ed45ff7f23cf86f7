"""Copying a folder that is written to, in two parts: most of it ahead, and the rest while nobody writes.

What may have changed since the first part is known by the time of each file's last change (ctime), which
programs cannot set. Pages that a program has mapped and written are the exception: the time changes only
when the first clean page of a file is written to. So everything is written out before the first part begins.

A file counts as copied when it is the one that was there when the copying began, has not been changed since,
and its copy has the same type, size, owner, mode and time of writing. Everything else is copied again.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.host.subprocesses import run

_DEADLINE_SECONDS = 600.0
_MARGIN_NANOSECONDS = 300_000_000
_MOST_DRIFT_SECONDS = 0.25
_LONG_SECONDS = 0.5
_MANY = 50
"""Another pass is worth its time while at least so many files would be copied again in the end."""
_MOST_PASSES = 3
_BATCH_BYTES = 512 << 10
_COPY = ["cp", "-a", "--reflink=auto", "--sparse=auto"]
"""`-a`: owners, times, links, extended attributes and the devices by which an overlay marks deletions.
`--reflink=auto` shares the data where the file system can; `--sparse=auto` keeps holes."""

_Facts = tuple[int, ...]


class CopyFailed(Exception):
    """The files could not be copied; the message is what the copying program said."""


@dataclass(frozen=True)
class _Instant:
    """A moment by the clock of a file system and by one that nobody sets."""

    changed_ns: int
    monotonic: float


class Mirror:
    """A copy of `source` in `target`, which must be empty. Its methods block.

    `clock` is a file that may be written to, on the file system of `source` and outside of it.
    """

    def __init__(self, source: Path, target: Path, clock: Path) -> None:
        self._source = os.fsencode(source)
        self._target = os.fsencode(target)
        self._clock = clock
        self._since: _Instant | None = None
        self._copied: dict[bytes, _Facts] = {}

    def copy_ahead(self) -> None:
        """Copy what there is, while programs go on writing. What goes wrong is put right by `complete`."""
        for _ in range(_MOST_PASSES):
            began = self._now()
            newest = began.changed_ns - _MARGIN_NANOSECONDS
            numbers: dict[bytes, int] = {}
            fresh = 0
            for path, entry in _walk(self._source):
                numbers[path] = entry.st_ino
                fresh += entry.st_ctime_ns >= newest
            run(["sync", "-f", os.fsdecode(self._source)], deadline_seconds=_DEADLINE_SECONDS)
            if self._since is None:
                run(
                    [*_COPY, "--", f"{os.fsdecode(self._source)}/.", os.fsdecode(self._target)],
                    deadline_seconds=_DEADLINE_SECONDS,
                )
            else:
                with suppress(CopyFailed, OSError):
                    self._copy_changes(self._since)
            self._copied = {path: _facts(entry, numbers.get(path)) for path, entry in _walk(self._target)}
            self._since = began
            if time.monotonic() - began.monotonic < _LONG_SECONDS and fresh < _MANY:
                return

    def complete(self) -> None:
        """Make the copy exact; nobody may write meanwhile. Raises CopyFailed, OSError."""
        since = self._since
        if since is not None and not self._clock_was_set(since):
            self._copy_changes(since)
            return
        if since is not None:
            _empty(self._target)
        done = run(
            [*_COPY, "--", f"{os.fsdecode(self._source)}/.", os.fsdecode(self._target)],
            deadline_seconds=_DEADLINE_SECONDS,
        )
        if done.exit_code != 0:
            raise CopyFailed(done.output.strip()[-600:])

    def _now(self) -> _Instant:
        self._clock.touch()
        return _Instant(self._clock.stat().st_ctime_ns, time.monotonic())

    def _clock_was_set(self, since: _Instant) -> bool:
        now = self._now()
        passed = (now.changed_ns - since.changed_ns) / 1e9
        return abs(passed - (now.monotonic - since.monotonic)) > _MOST_DRIFT_SECONDS

    def _copy_changes(self, since: _Instant) -> None:
        """Bring the copy up to date with everything that may have changed after `since`."""
        newest = since.changed_ns - _MARGIN_NANOSECONDS
        gone = dict(self._copied)
        folders: list[bytes] = []
        files: list[tuple[int, bytes]] = []
        for path, entry in _walk(self._source):
            facts = gone.pop(path, None)
            if facts == _facts(entry, entry.st_ino) and entry.st_ctime_ns < newest:
                continue
            if stat.S_ISDIR(entry.st_mode):
                self._make_folder(path)
                folders.append(path)
            else:
                files.append((entry.st_ino if entry.st_nlink > 1 else 0, path))
        for path in gone:
            _remove(os.path.join(self._target, path))
        self._copy_files(files)
        self._copy_attributes(
            {*folders, *map(os.path.dirname, gone), *(os.path.dirname(f) for _, f in files)}
        )

    def _make_folder(self, path: bytes) -> None:
        target = os.path.join(self._target, path)
        if not os.path.isdir(target) or os.path.islink(target):
            _remove(target)
            os.mkdir(target)

    def _copy_files(self, files: list[tuple[int, bytes]]) -> None:
        """Names of one file are copied together, so that they are one file in the copy, too."""
        batch: list[bytes] = []
        size, last = 0, 0
        for number, path in sorted(files):
            if size > _BATCH_BYTES and (number == 0 or number != last):
                self._copy_batch(batch)
                batch, size = [], 0
            batch.append(path)
            size += len(path) + 16
            last = number
        if batch:
            self._copy_batch(batch)

    def _copy_batch(self, paths: list[bytes]) -> None:
        # A copy that is there may have names that are no longer names of this file: it is removed first.
        for path in paths:
            _remove(os.path.join(self._target, path))
        argv = [*_COPY, "--parents", "-t", os.fsdecode(self._target), "--", *map(os.fsdecode, paths)]
        done = run(["env", "-C", os.fsdecode(self._source), *argv], deadline_seconds=_DEADLINE_SECONDS)
        if done.exit_code != 0:
            raise CopyFailed(done.output.strip()[-600:])

    def _copy_attributes(self, folders: set[bytes]) -> None:
        """Deepest first: what is done inside a folder changes its time."""
        for path in sorted(folders, key=lambda each: each.count(b"/"), reverse=True):
            source = os.path.join(self._source, path)
            with suppress(FileNotFoundError):
                _copy_folder_attributes(source, os.path.join(self._target, path))


def _walk(root: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """Everything below `root`, and itself as the empty path; folders before what is in them."""
    with suppress(FileNotFoundError):
        yield b"", os.lstat(root)
    pending = [b""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as entries:
                listed = list(entries)
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in listed:
            path = os.path.join(folder, entry.name)
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield path, facts
            if stat.S_ISDIR(facts.st_mode):
                pending.append(path)


def _facts(entry: os.stat_result, number: int | None) -> _Facts:
    """What a copy has in common with its original, and the number of the original."""
    size = 0 if stat.S_ISDIR(entry.st_mode) else entry.st_size
    return entry.st_mode, entry.st_uid, entry.st_gid, size, entry.st_mtime_ns, entry.st_rdev, number or 0


def _copy_folder_attributes(source: bytes, target: bytes) -> None:
    facts = os.lstat(source)
    os.chown(target, facts.st_uid, facts.st_gid)
    os.chmod(target, stat.S_IMODE(facts.st_mode))
    wanted = {name: os.getxattr(source, name) for name in os.listxattr(source)}
    for name in os.listxattr(target):
        if name not in wanted:
            os.removexattr(target, name)
    for name, value in wanted.items():
        os.setxattr(target, name, value)
    os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def _remove(path: bytes) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def _empty(folder: bytes) -> None:
    for name in os.listdir(folder):
        _remove(os.path.join(folder, name))
