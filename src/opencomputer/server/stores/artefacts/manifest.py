"""What a memory image consists of. Its bytes are canonical, and their digest is the image's identity."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, cast

from opencomputer.server.domain.layers import MemoryId
from opencomputer.server.stores.artefacts.digests import digest_file
from opencomputer.server.stores.artefacts.durable import sync


class _Entry(TypedDict):
    name: str
    size: int
    digest: str


class _Content(TypedDict):
    files: list[_Entry]
    folders: list[str]


@dataclass(frozen=True)
class ImageFile:
    """One file, by its path in the image."""

    name: str
    size_bytes: int
    digest: str


@dataclass(frozen=True)
class Manifest:
    files: tuple[ImageFile, ...]
    folders: tuple[str, ...]

    @property
    def id(self) -> MemoryId:
        return MemoryId(hashlib.sha256(self.to_bytes()).hexdigest())

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def to_bytes(self) -> bytes:
        files = [_Entry(name=each.name, size=each.size_bytes, digest=each.digest) for each in self.files]
        content = _Content(files=files, folders=list(self.folders))
        return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()

    @staticmethod
    def from_bytes(content: bytes) -> Manifest:
        """Only for bytes whose digest has been checked."""
        parsed = cast(_Content, json.loads(content))
        files = (ImageFile(each["name"], each["size"], each["digest"]) for each in parsed["files"])
        return Manifest(tuple(files), tuple(parsed["folders"]))


Signature = tuple[tuple[str, int, int, int], ...]
"""For each file its name, size, time of change and inode: equal ones were not written to in between."""


def measure(folder: Path, *, on_disk: bool = False) -> Manifest:
    """Read everything. With `on_disk`, the bytes are durable afterwards: written while they are read.

    Raises ValueError when there is anything but files and folders.
    """
    names, folders = _contents(folder)
    with ThreadPoolExecutor(1) as syncing:
        synced = [syncing.submit(sync, folder / name) for name in names] if on_disk else []
        files = tuple(
            ImageFile(name, (folder / name).stat().st_size, digest_file(folder / name)) for name in names
        )
        for each in synced:
            each.result()
    return Manifest(files, tuple(folders))


def signature(folder: Path) -> Signature:
    names, _ = _contents(folder)
    found = ((name, (folder / name).stat()) for name in names)
    return tuple((name, each.st_size, each.st_mtime_ns, each.st_ino) for name, each in found)


def _contents(folder: Path) -> tuple[Sequence[str], Sequence[str]]:
    files: list[str] = []
    folders: list[str] = []
    waiting = [""]
    while waiting:
        parent = waiting.pop()
        for entry in os.scandir(folder / parent):
            name = os.path.join(parent, entry.name)
            if entry.is_dir(follow_symlinks=False):
                folders.append(name)
                waiting.append(name)
            elif stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
                files.append(name)
            else:
                raise ValueError(f"{name} in a memory image is neither a file nor a folder")
    return sorted(files), sorted(folders)
