"""States of brains as blobs."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from pathlib import Path

from obstore.store import LocalStore, ObjectStore

from opencomputer.server.host.tasks import finish
from opencomputer.server.stores.artefacts.blobs import Blobs
from opencomputer.server.stores.artefacts.failures import translated
from opencomputer.wire.ids import SessionId, TurnId

_PREFIX = "states"


class BlobBrainStates:
    """Implements BrainStates in a blob store, a folder of the host unless one is given."""

    def __init__(self, folder: Path, *, store: ObjectStore | None = None) -> None:
        """Blocks for a moment."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._blobs = Blobs(store or LocalStore(folder), (_PREFIX,))
        self._blobs.clear_drafts()

    async def put(self, session_id: SessionId, turn_id: TurnId, state: bytes) -> None:
        await finish(asyncio.to_thread(self._put, _key(session_id, turn_id), state))

    def _put(self, key: str, state: bytes) -> None:
        with translated():
            self._blobs.put(key, state)

    async def get(self, session_id: SessionId, turn_id: TurnId) -> bytes | None:
        return await asyncio.to_thread(self._get, _key(session_id, turn_id))

    def _get(self, key: str) -> bytes | None:
        try:
            return b"".join(self._blobs.read(key))
        except FileNotFoundError:
            return None

    async def turns(self, session_id: SessionId) -> frozenset[TurnId]:
        found = await asyncio.to_thread(self._blobs.list, f"{_PREFIX}/{session_id}")
        return frozenset(TurnId(blob.key.rpartition("/")[2]) for blob in found)

    async def remove(self, session_id: SessionId, turn_ids: Set[TurnId]) -> None:
        keys = [_key(session_id, each) for each in turn_ids]
        await finish(asyncio.to_thread(self._remove, f"{_PREFIX}/{session_id}", keys))

    def _remove(self, folder: str, keys: list[str]) -> None:
        self._blobs.delete(keys)
        self._blobs.remove_empty_folder(folder)


def _key(session_id: SessionId, turn_id: TurnId) -> str:
    return f"{_PREFIX}/{session_id}/{turn_id}"
