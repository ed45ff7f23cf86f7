"""Keeping memory images: each file is a blob, and a manifest, put last, makes them an image."""

from __future__ import annotations

import hashlib
from pathlib import Path

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.domain.errors import ArtefactDamaged, ArtefactMissing
from opencomputer.server.domain.layers import MemoryId
from opencomputer.server.host.trees import remove_tree
from opencomputer.server.stores.artefacts.blobs import Blobs
from opencomputer.server.stores.artefacts.durable import Step
from opencomputer.server.stores.artefacts.manifest import Manifest, Signature, measure, signature
from opencomputer.server.stores.artefacts.shelf import FILES, Drafts, Shelf

BLOBS = "memories"
_MANIFEST = "manifest.json"


class Memories:
    """All calls block. Calls about one image must not overlap.

    An image is read in full, and compared, once in the life of this object, and again when a file of it looks
    as if it had been touched since.
    """

    def __init__(self, blobs: Blobs, shelf: Shelf, drafts: Drafts, clock: Clock, step: Step) -> None:
        self._blobs = blobs
        self._shelf = shelf
        self._drafts = drafts
        self._clock = clock
        self._step = step
        self._verified: dict[str, Signature] = {}

    def measure(self, folder: Path) -> Manifest:
        self._step("measure")
        return measure(folder, on_disk=True)

    def publish(self, manifest: Manifest, folder: Path) -> None:
        """Store what `measure` saw, and make its folder the unpacked copy."""
        memory_id = manifest.id
        if self._blobs.find(_key(memory_id)) is None:
            self._store(manifest, folder)
        else:
            self._blobs.touch(_key(memory_id), self._clock.now())
        self._step("stored")
        if self._shelf.touch(memory_id, self._clock.now()):
            remove_tree(folder)
            return
        draft = self._drafts.make()
        folder.rename(draft / FILES)
        self._shelve(manifest, draft)

    def _store(self, manifest: Manifest, folder: Path) -> None:
        for number, file in enumerate(manifest.files):
            self._step("file")
            self._blobs.put_file(_file_key(manifest.id, number), folder / file.name)
        self._step("manifest")
        self._blobs.put(_key(manifest.id), manifest.to_bytes())
        self._blobs.touch(_key(manifest.id), self._clock.now())

    def _shelve(self, manifest: Manifest, draft: Path) -> None:
        """`draft / FILES` is known to be what the manifest says."""
        (draft / _MANIFEST).write_bytes(manifest.to_bytes())
        seen = signature(draft / FILES)
        self._shelf.put(manifest.id, draft, self._clock.now())
        self._verified[manifest.id] = seen

    def use(self, memory_id: MemoryId) -> bool:
        """Note a use of the unpacked copy, if it was verified and looks as it did then. Quick."""
        verified = self._verified.get(memory_id)
        if verified is None or verified != self._signature(memory_id):
            return False
        return self._shelf.touch(memory_id, self._clock.now())

    def make_sure(self, memory_id: MemoryId) -> None:
        """Verify the unpacked copy; put one from the store in its place if it is missing or damaged.

        Raises ArtefactMissing, ArtefactDamaged; then nothing is left but the blobs.
        """
        seen = self._signature(memory_id)
        if seen is not None and _is_image(memory_id, self._shelf.path(memory_id)):
            self._verified[memory_id] = seen
            self._shelf.touch(memory_id, self._clock.now())
            return
        self._verified.pop(memory_id, None)
        self._shelf.remove(memory_id)
        self._fetch(memory_id)

    def _signature(self, memory_id: MemoryId) -> Signature | None:
        try:
            return signature(self._shelf.path(memory_id))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None

    def _fetch(self, memory_id: MemoryId) -> None:
        draft = self._drafts.make()
        try:
            manifest = self._manifest(memory_id)
            self._get_files(manifest, draft / FILES)
            self._step("fetched")
            if measure(draft / FILES) != manifest:
                raise ArtefactDamaged(id=memory_id)
            self._shelve(manifest, draft)
        except Exception:
            remove_tree(draft)
            raise

    def _manifest(self, memory_id: MemoryId) -> Manifest:
        try:
            content = b"".join(self._blobs.read(_key(memory_id)))
        except FileNotFoundError as error:
            raise ArtefactMissing(id=memory_id) from error
        if hashlib.sha256(content).hexdigest() != memory_id:
            raise ArtefactDamaged(id=memory_id)
        return Manifest.from_bytes(content)

    def _get_files(self, manifest: Manifest, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        for name in manifest.folders:
            (folder / name).mkdir(mode=0o700)
        for number, file in enumerate(manifest.files):
            try:
                self._blobs.get_file(_file_key(manifest.id, number), folder / file.name)
            except FileNotFoundError as error:
                raise ArtefactDamaged(id=manifest.id, file=file.name) from error


def _is_image(memory_id: MemoryId, folder: Path) -> bool:
    try:
        content = (folder.parent / _MANIFEST).read_bytes()
    except FileNotFoundError:
        return False
    return hashlib.sha256(content).hexdigest() == memory_id and measure(folder) == Manifest.from_bytes(
        content
    )


def _key(memory_id: str) -> str:
    return f"{BLOBS}/{memory_id}/{_MANIFEST}"


def _file_key(memory_id: str, number: int) -> str:
    return f"{BLOBS}/{memory_id}/{number}"
