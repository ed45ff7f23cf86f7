"""Copying files by content: with their digest, with their holes, on the disk when it is done."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_BLOCK = 1 << 18
_ZEROS = bytes(_BLOCK)

Progress = Callable[[int], None]
"""Told how many more bytes are done."""


def nothing_told(_done: int) -> None:
    return None


def digest_of(file: Path) -> str:
    with open(file, "rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def copy(source: IO[bytes], target: Path, progress: Progress = nothing_told) -> tuple[str, int]:
    """Make `target` of what is read, readable by its owner only. Returns digest and size. Raises OSError."""
    digest = hashlib.sha256()
    size = 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with open(os.open(target, flags, 0o600), "wb", buffering=0) as written:
        while block := source.read(_BLOCK):
            digest.update(block)
            with failing_at(target):
                _add(written.fileno(), block)
            size += len(block)
            progress(len(block))
        with failing_at(target):
            os.ftruncate(written.fileno(), size)
            os.fsync(written.fileno())
    return digest.hexdigest(), size


@contextmanager
def failing_at(file: Path) -> Generator[None]:
    """Name the file in failures that name none: of a full disk must be said which."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(file)
        raise


def _add(descriptor: int, block: bytes) -> None:
    if block == _ZEROS[: len(block)]:
        os.lseek(descriptor, len(block), os.SEEK_CUR)
    else:
        _write(descriptor, block)


def _write(descriptor: int, block: bytes) -> None:
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
