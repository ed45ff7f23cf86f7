"""Moving files between here and a sandbox, one after the other, each in constant memory."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from opencomputer.cli import text
from opencomputer.cli.copying import Copied, into_folder, local_path
from opencomputer.cli.failures import CommandError
from opencomputer.cli.progress import Moving
from opencomputer.sdk.errors import NotFoundError, ValidationError
from opencomputer.sdk.files import EntryInfo, Filesystem

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from opencomputer.sdk.sandbox_link import SandboxLink

_CHUNK_BYTES = 256 * 1024
_DEEPEST = 64
_STANDARD = "-"


class Progress(Moving):
    """A bar on standard error while something is copied, if it is to be shown; and the count of it all."""

    def __init__(self, *, shown: bool, colour: bool = True) -> None:
        self.files = 0
        self.size_bytes = 0
        self._task: TaskID | None = None
        if shown:
            self._bar, self._task = _bar(colour=colour)

    def expect(self, size_bytes: int) -> None:
        """Say how much there will be in all."""
        if self._bar and self._task is not None:
            self._bar.update(self._task, total=size_bytes)

    def begin(self, name: str) -> None:
        """A file begins."""
        self.files += 1
        if self._bar and self._task is not None:
            self._bar.update(self._task, name=name)

    def advance(self, count: int) -> None:
        """So many bytes were moved."""
        self.size_bytes += count
        if self._bar and self._task is not None:
            self._bar.advance(self._task, count)


async def upload(link: SandboxLink, source: str, target: str, progress: Progress) -> Copied:
    """Copy a local file, folder or standard input into a sandbox."""
    files = Filesystem(link)
    if source == _STANDARD:
        progress.begin(_STANDARD)
        await files.write(target, _read(sys.stdin.buffer, progress))
        return Copied(progress.files, progress.size_bytes)
    path, name = _local_source(source)
    if target.endswith("/") or await _is_folder(files, target):
        target = into_folder(target, name)
    # What is named is copied whatever it is, a pipe too; what a folder holds only if it is a file.
    pairs = list(_local_tree(path, PurePosixPath(target))) if path.is_dir() else [_pair(path, target)]
    progress.expect(sum(pair.size_bytes for pair in pairs))
    for pair in pairs:
        if pair.is_folder:
            await files.make_dir(pair.target)
            continue
        progress.begin(pair.target)
        with pair.source.open("rb") as file:
            await files.write(pair.target, _read(file, progress))
    return Copied(progress.files, progress.size_bytes)


async def download(link: SandboxLink, source: str, target: str, progress: Progress) -> Copied:
    """Copy a sandbox's file or folder here, or a file to standard output."""
    files = Filesystem(link)
    if target == _STANDARD:
        progress.begin(source)
        async for chunk in files.read_stream(source):
            sys.stdout.buffer.write(chunk)
            progress.advance(len(chunk))
        sys.stdout.buffer.flush()
        return Copied(progress.files, progress.size_bytes)
    destination = _local_target(target, PurePosixPath(source).name)
    if await _is_folder(files, source):
        await _download_folder(files, source, destination, progress)
    else:
        _make_folder(destination.parent)
        await _download_file(files, source, destination, progress)
    return Copied(progress.files, progress.size_bytes)


def _local_source(source: str) -> tuple[Path, str]:
    path = Path(source)
    if not path.exists():
        raise CommandError(f"there is no file {source}")
    return path, path.resolve().name


def _local_target(target: str, name: str) -> Path:
    path = Path(target)
    return Path(local_path(path, name)) if target.endswith("/") or path.is_dir() else path


def _make_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class _Pair:
    source: Path
    target: str
    is_folder: bool
    size_bytes: int = 0


def _pair(source: Path, target: str) -> _Pair:
    return _Pair(source, target, is_folder=False, size_bytes=source.stat().st_size)


def _local_tree(source: Path, target: PurePosixPath) -> Iterator[_Pair]:
    if source.is_file():
        yield _pair(source, str(target))
    elif source.is_dir():
        yield _Pair(source, str(target), is_folder=True)
        for entry in sorted(source.iterdir()):
            # A link to a folder could lead back to where it is found.
            if entry.is_symlink() and entry.is_dir():
                _leave_out(entry, "a link to a folder")
            else:
                yield from _local_tree(entry, target / entry.name)
    else:
        _leave_out(source, "neither a file nor a folder")


def _leave_out(source: Path, reason: str) -> None:
    print(f"left out {text.harmless(source)}: {reason}", file=sys.stderr)


async def _is_folder(files: Filesystem, path: str) -> bool:
    try:
        await files.list(path)
    except (NotFoundError, ValidationError):
        return False
    return True


async def _download_folder(files: Filesystem, source: str, target: Path, progress: Progress) -> None:
    found = [entry async for entry in _remote_tree(files, source, Path(), _DEEPEST)]
    progress.expect(sum(entry.size for _, entry in found))
    _make_folder(target)
    for relative, entry in found:
        if entry.is_dir:
            _make_folder(target / relative)
        else:
            await _download_file(files, entry.path, target / relative, progress)


async def _remote_tree(
    files: Filesystem, folder: str, below: Path, deepest: int
) -> AsyncIterator[tuple[Path, EntryInfo]]:
    if not deepest:
        raise CommandError(f"{folder} lies too deep; a link in it may lead back to a folder above it")
    for entry in await files.list(folder):
        relative = Path(local_path(below, entry.name))
        yield relative, entry
        if entry.is_dir:
            async for deeper in _remote_tree(files, entry.path, relative, deepest - 1):
                yield deeper


async def _download_file(files: Filesystem, source: str, target: Path, progress: Progress) -> None:
    progress.begin(source)
    # Complete or not there: what is half downloaded goes by another name.
    half = target.with_name(f".{target.name}.oc-{os.getpid()}")
    try:
        with half.open("wb") as file:
            async for chunk in files.read_stream(source):
                file.write(chunk)
                progress.advance(len(chunk))
        half.replace(target)
    finally:
        with suppress(FileNotFoundError):
            half.unlink()


async def _read(file: BinaryIO, progress: Progress) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(file.read, _CHUNK_BYTES):
        yield chunk
        progress.advance(len(chunk))


def _bar(*, colour: bool) -> tuple[Bar, TaskID]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.fields[name]}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    bar = Bar(*columns, console=Console(stderr=True, no_color=not colour), transient=True)
    return bar, bar.add_task("", total=None, name="")
