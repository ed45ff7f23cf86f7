"""The blob store: durable bytes by key, through obstore, whose calls are the same for a folder and for S3."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import obstore
from obstore.store import LocalStore, ObjectStore

from opencomputer.server.stores.artefacts.durable import sync

_PART_BYTES = 8 << 20
_PARTS_AT_ONCE = 4
_INCOMING = "incoming"
_BLOCK = 1 << 20
_ZEROS = bytes(_BLOCK)


@dataclass(frozen=True)
class Blob:
    key: str
    size_bytes: int
    modified_at: datetime


class Blobs:
    """Blobs appear complete or not at all, and what was put is durable. FileNotFoundError: no such blob.

    All calls block. In a local folder files are shared by hard links instead of being copied, and put on the
    disk by us, because obstore leaves that to the system.
    """

    def __init__(self, store: ObjectStore, prefixes: Sequence[str]) -> None:
        """`prefixes` are what all keys begin with."""
        self._store = store
        self._root = Path(store.prefix) if isinstance(store, LocalStore) and store.prefix else None
        # Writers of one local file only wait for each other.
        self._parts_at_once = 1 if self._root is not None else _PARTS_AT_ONCE
        if self._root is not None:
            for prefix in (*prefixes, _INCOMING):
                (self._root / prefix).mkdir(mode=0o700, exist_ok=True)
            sync(self._root)

    def put(self, key: str, content: bytes) -> None:
        obstore.put(self._store, key, content, use_multipart=False)
        self._sync(key)

    def put_stream(self, chunks: Iterator[bytes]) -> str:
        """Store bytes whose name will be known at their end. Returns a key for `rename` or `delete`."""
        key = f"{_INCOMING}/{secrets.token_hex(12)}"
        obstore.put(
            self._store,
            key,
            chunks,
            use_multipart=True,
            chunk_size=_PART_BYTES,
            max_concurrency=self._parts_at_once,
        )
        if self._root is not None:
            sync(self._root / key)
        return key

    def rename(self, key: str, new_key: str) -> None:
        obstore.rename(self._store, key, new_key, overwrite=True)
        self._sync(new_key)

    def put_file(self, key: str, file: Path) -> None:
        """Store a file that nobody changes any more."""
        if self._root is not None and _link(file, self._root / key):
            self._sync(key)
            return
        obstore.put(self._store, key, file, chunk_size=_PART_BYTES, max_concurrency=self._parts_at_once)
        self._sync(key)

    def get_file(self, key: str, file: Path) -> None:
        """Make a new file of a blob. It must not be changed."""
        if self._root is not None and _link(self._root / key, file):
            return
        with open(file, "xb") as target:
            _write_with_holes(self.read(key), target.fileno())

    def read(self, key: str) -> Iterator[bytes]:
        return iter(obstore.get(self._store, key).stream(min_chunk_size=_PART_BYTES))

    def find(self, key: str) -> Blob | None:
        try:
            meta = obstore.head(self._store, key)
        except FileNotFoundError:
            return None
        return Blob(meta["path"], meta["size"], meta["last_modified"])

    def list(self, prefix: str) -> Sequence[Blob]:
        found = obstore.list(  # pyright: ignore[reportUnknownMemberType]  # Arrow's types, if it were there
            self._store, prefix
        ).collect()
        return [Blob(each["path"], each["size"], each["last_modified"]) for each in found]

    def delete(self, keys: Iterable[str]) -> None:
        """Blobs that are not there are no error."""
        for key in keys:
            try:
                obstore.delete(self._store, key)
            except FileNotFoundError:
                pass

    def touch(self, key: str, at: datetime) -> None:
        """Note a use where the store can; elsewhere a blob is as old as its bytes."""
        if self._root is not None:
            os.utime(self._root / key, (at.timestamp(), at.timestamp()))

    def remove_empty_folder(self, prefix: str) -> None:
        """Where folders are real. Object stores have none."""
        if self._root is not None:
            try:
                (self._root / prefix).rmdir()
            except OSError:
                pass  # it is not empty, or gone already

    def delete_incoming(self, before: datetime) -> None:
        """Remove what was begun before then and not finished."""
        self.delete(each.key for each in self.list(_INCOMING) if each.modified_at < before)

    def clear_drafts(self) -> None:
        """Remove all that is not finished in a folder, which is ours alone, as other stores may not be."""
        if self._root is not None:
            self.delete(each.key for each in self.list(_INCOMING))
            for pattern in ("*#*", "*/*#*", "*/*/*#*"):  # obstore's own drafts, which it does not list
                for draft in self._root.glob(pattern):
                    draft.unlink(missing_ok=True)

    def _sync(self, key: str) -> None:
        if self._root is None:
            return
        path = self._root / key
        while path != self._root:
            sync(path)
            path = path.parent


def _link(source: Path, target: Path) -> bool:
    """False: they are on different file systems, or the file has as many names as it can have."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for _ in range(2):
        try:
            os.link(source, target)
            return True
        except FileExistsError:
            target.unlink(missing_ok=True)
        except OSError as error:
            if error.errno in (errno.EXDEV, errno.EMLINK, errno.EPERM):
                return False
            raise
    raise FileExistsError(target)


def _write_with_holes(chunks: Iterator[bytes], descriptor: int) -> None:
    size = 0
    for chunk in chunks:
        for start in range(0, len(chunk), _BLOCK):
            block = chunk[start : start + _BLOCK]
            if block != _ZEROS[: len(block)]:
                _write_at(descriptor, memoryview(block), size)
            size += len(block)
    os.ftruncate(descriptor, size)


def _write_at(descriptor: int, block: memoryview, offset: int) -> None:
    while block:
        written = os.pwrite(descriptor, block, offset)
        block, offset = block[written:], offset + written
