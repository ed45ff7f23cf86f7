"""Keeping layers: an archive in the blob store is the truth, an unpacked copy is what machines use."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.domain.errors import ArtefactDamaged, ArtefactMissing
from opencomputer.server.domain.layers import LayerId
from opencomputer.server.host.trees import remove_tree
from opencomputer.server.stores.artefacts.archive import pack, unpack
from opencomputer.server.stores.artefacts.blobs import Blobs
from opencomputer.server.stores.artefacts.durable import Step
from opencomputer.server.stores.artefacts.failures import ArchiveFailed
from opencomputer.server.stores.artefacts.settling import settle
from opencomputer.server.stores.artefacts.shelf import FILES, Drafts, Shelf

BLOBS = "layers"
_AT_ONCE_BYTES = 16 << 20
"""Archives up to this size are held in memory until it is known whether they are stored already."""


@dataclass(frozen=True)
class Archived:
    """An archive that has an identity, and no name in the store yet.

    Either `content` is all of it, or it is in the store as `incoming`.
    """

    id: LayerId
    size_bytes: int
    content: bytes | None
    incoming: str


class Layers:
    """All calls block. Calls about one layer must not overlap."""

    def __init__(self, blobs: Blobs, shelf: Shelf, drafts: Drafts, clock: Clock, step: Step) -> None:
        self._blobs = blobs
        self._shelf = shelf
        self._drafts = drafts
        self._clock = clock
        self._step = step

    def archive(self, folder: Path) -> Archived:
        settle(folder)
        self._step("archive")
        with closing(pack(folder)) as chunks:
            reading = _Reading(chunks)
            first: list[bytes] = []
            while reading.size_bytes <= _AT_ONCE_BYTES and (chunk := next(reading, None)) is not None:
                first.append(chunk)
            if reading.size_bytes <= _AT_ONCE_BYTES:
                return Archived(reading.id, reading.size_bytes, b"".join(first), "")
            incoming = self._blobs.put_stream(itertools.chain(first, reading))
        self._step("incoming")
        return Archived(reading.id, reading.size_bytes, None, incoming)

    def publish(self, archived: Archived, folder: Path) -> None:
        """Give an archive its name, and make the folder it was made of the unpacked copy."""
        self._store(archived)
        self._step("stored")
        if self._shelf.touch(archived.id, self._clock.now()):
            remove_tree(folder)
            return
        draft = self._drafts.make()
        folder.rename(draft / FILES)
        self._shelf.put(archived.id, draft, self._clock.now())

    def _store(self, archived: Archived) -> None:
        key = _key(archived.id)
        existing = self._blobs.find(key)
        if existing is not None and existing.size_bytes == archived.size_bytes:
            if archived.content is None:
                self._blobs.delete([archived.incoming])
        elif archived.content is None:
            self._blobs.rename(archived.incoming, key)
        else:
            self._blobs.put(key, archived.content)
        self._blobs.touch(key, self._clock.now())

    def fetch(self, layer_id: LayerId) -> None:
        """Unpack the archive. Raises ArtefactMissing, ArtefactDamaged; then nothing is left."""
        draft = self._drafts.make()
        try:
            self._unpack(layer_id, draft / FILES)
            self._step("unpacked")
            self._shelf.put(layer_id, draft, self._clock.now())
        except Exception:
            remove_tree(draft)
            raise

    def _unpack(self, layer_id: LayerId, folder: Path) -> None:
        folder.mkdir()
        try:
            reading = _Reading(self._blobs.read(_key(layer_id)))
        except FileNotFoundError as error:
            raise ArtefactMissing(id=layer_id) from error
        failure = None
        try:
            unpack(reading, folder)
        except ArchiveFailed as error:
            failure = error
        for _ in reading:
            pass  # what tar did not want to read counts as well
        if reading.id != layer_id:
            raise ArtefactDamaged(id=layer_id) from failure
        if failure is not None:
            raise failure
        settle(folder)


class _Reading(Iterator[bytes]):
    """Passes chunks on and knows what they amounted to."""

    def __init__(self, chunks: Iterator[bytes] | Generator[bytes]) -> None:
        self._chunks = chunks
        self._digest = hashlib.sha256()
        self.size_bytes = 0

    def __next__(self) -> bytes:
        chunk = next(self._chunks)
        self._digest.update(chunk)
        self.size_bytes += len(chunk)
        return chunk

    @property
    def id(self) -> LayerId:
        return LayerId(self._digest.hexdigest())


def _key(layer_id: str) -> str:
    return f"{BLOBS}/{layer_id}.tar"
