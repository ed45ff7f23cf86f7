"""Removing artefacts that nobody wants and nobody used lately, in whatever form they still exist."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from opencomputer.server.stores.artefacts.blobs import Blob, Blobs
from opencomputer.server.stores.artefacts.shelf import Shelf


class Sweep:
    """One kind of artefacts. All calls block; `remove_unused` must not overlap a use of the same artefact."""

    def __init__(self, blobs: Blobs, prefix: str, shelf: Shelf) -> None:
        self._blobs = blobs
        self._prefix = prefix
        self._shelf = shelf

    def ids(self) -> Sequence[str]:
        """Of all that have an unpacked copy or a blob."""
        stored = {_id_of(blob.key) for blob in self._blobs.list(self._prefix)}
        return sorted(stored | set(self._shelf.ids()))

    def remove_unused(self, artefact_id: str, since: datetime) -> bool:
        """Remove an artefact that was not used since then. The copy first: a blob alone is still whole."""
        blobs = self._blobs_of(artefact_id)
        shelved = self._shelf.last_use(artefact_id)
        if any(blob.modified_at > since for blob in blobs) or (shelved is not None and shelved > since):
            return False
        self._shelf.remove(artefact_id)
        self._blobs.delete(blob.key for blob in blobs)
        self._blobs.remove_empty_folder(f"{self._prefix}/{artefact_id}")
        return True

    def _blobs_of(self, artefact_id: str) -> Sequence[Blob]:
        """What makes an artefact whole comes first: without it the rest is no artefact."""
        single = self._blobs.find(f"{self._prefix}/{artefact_id}.tar")
        if single is not None:
            return [single]
        parts = self._blobs.list(f"{self._prefix}/{artefact_id}")
        return sorted(parts, key=lambda blob: (not blob.key.endswith(".json"), blob.key))


def _id_of(key: str) -> str:
    return key.split("/")[1].removesuffix(".tar")
