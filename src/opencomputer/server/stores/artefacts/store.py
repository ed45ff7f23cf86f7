"""The store as services see it: nothing blocks, nothing is done twice at a time or left half-done."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from obstore.store import LocalStore, ObjectStore

from opencomputer.server.contracts.artefacts import Change, KeptLayer, KeptMemory
from opencomputer.server.contracts.clock import Clock
from opencomputer.server.domain.layers import LayerId, MemoryId
from opencomputer.server.host.tasks import finish
from opencomputer.server.host.threads import run_in_own_thread
from opencomputer.server.host.trees import remove_tree
from opencomputer.server.stores.artefacts import layers as layer_blobs
from opencomputer.server.stores.artefacts import memories as memory_blobs
from opencomputer.server.stores.artefacts.blobs import Blobs
from opencomputer.server.stores.artefacts.differences import differences
from opencomputer.server.stores.artefacts.durable import Step, no_interruption
from opencomputer.server.stores.artefacts.failures import translated
from opencomputer.server.stores.artefacts.layers import Layers
from opencomputer.server.stores.artefacts.memories import Memories
from opencomputer.server.stores.artefacts.merging import merge_layers
from opencomputer.server.stores.artefacts.shelf import Drafts, Shelf
from opencomputer.server.stores.artefacts.sweeping import Sweep

T = TypeVar("T")

GRACE = timedelta(minutes=15)
_AT_ONCE = 4
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class BlobArtefacts:
    """Implements Artefacts in one folder of the host and a blob store, a folder in there unless one is given.

    Blobs are durable. Unpacked copies of layers are not put on the disk at once, which would take a wait for
    each of their files: they count until the host starts anew, and then are made again from verified blobs.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        *,
        store: ObjectStore | None = None,
        step: Step = no_interruption,
        boot_id: str | None = None,
    ) -> None:
        """Blocks for a moment. `step` is called ahead of each step, for tests to interrupt."""
        for each in (folder, *(folder / name for name in ("drafts", "layers", "memories", "blobs"))):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self._clock = clock
        self._boot_id = boot_id or _BOOT_ID.read_text().strip()
        self._drafts = Drafts(folder / "drafts")
        self._layer_shelf = Shelf(folder / "layers", self._drafts, step)
        self._memory_shelf = Shelf(folder / "memories", self._drafts, step)
        self._blobs = Blobs(store or LocalStore(folder / "blobs"), (layer_blobs.BLOBS, memory_blobs.BLOBS))
        self._layers = Layers(self._blobs, self._layer_shelf, self._drafts, clock, step)
        self._memories = Memories(self._blobs, self._memory_shelf, self._drafts, clock, step)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._merging = asyncio.Lock()
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def new_draft(self) -> Path:
        return self._drafts.new()

    async def discard_draft(self, draft: Path) -> None:
        await self._run(lambda: remove_tree(draft))

    async def keep_layer(self, folder: Path) -> KeptLayer:
        return await finish(self._keep_layer(folder))

    async def _keep_layer(self, folder: Path) -> KeptLayer:
        archived = await self._run_in_turn(lambda: self._layers.archive(folder))
        async with self._alone(archived.id):
            await self._run(lambda: self._layers.publish(archived, folder))
        return KeptLayer(archived.id, archived.size_bytes)

    async def keep_memory(self, folder: Path) -> KeptMemory:
        return await finish(self._keep_memory(folder))

    async def _keep_memory(self, folder: Path) -> KeptMemory:
        manifest = await self._run_in_turn(lambda: self._memories.measure(folder))
        async with self._alone(manifest.id):
            await self._run(lambda: self._memories.publish(manifest, folder))
        return KeptMemory(manifest.id, manifest.size_bytes)

    async def layer(self, layer_id: LayerId) -> Path:
        return await finish(self._layer(layer_id))

    async def _layer(self, layer_id: LayerId) -> Path:
        async with self._alone(layer_id):
            if not await asyncio.to_thread(self._layer_shelf.touch, layer_id, self._clock.now()):
                await self._run_in_turn(lambda: self._layers.fetch(layer_id))
        return self._layer_shelf.path(layer_id)

    async def memory(self, memory_id: MemoryId) -> Path:
        return await finish(self._memory(memory_id))

    async def _memory(self, memory_id: MemoryId) -> Path:
        async with self._alone(memory_id):
            if not await asyncio.to_thread(self._memories.use, memory_id):
                await self._run_in_turn(lambda: self._memories.make_sure(memory_id))
        return self._memory_shelf.path(memory_id)

    async def merge(self, layers: Sequence[LayerId]) -> KeptLayer:
        return await finish(self._merge(layers))

    async def _merge(self, layers: Sequence[LayerId]) -> KeptLayer:
        """One at a time: what is merged shares files with what it was made of, and tar takes a change of the
        number of a file's names for a change of the file."""
        async with self._merging:
            folders = [await self._layer(each) for each in layers]
            draft = self._drafts.new()
            try:
                await self._run_in_turn(lambda: merge_layers(folders, draft))
                return await self._keep_layer(draft)
            except Exception:
                await self.discard_draft(draft)
                raise

    async def changes(
        self, base: Sequence[Path], before: Sequence[Path], after: Sequence[Path]
    ) -> Sequence[Change]:
        return await self._run(lambda: differences(base, before, after))

    async def collect(self, layers: frozenset[LayerId], memories: frozenset[MemoryId]) -> int:
        layer_sweep = Sweep(self._blobs, layer_blobs.BLOBS, self._layer_shelf)
        memory_sweep = Sweep(self._blobs, memory_blobs.BLOBS, self._memory_shelf)
        since = self._clock.now() - GRACE
        await self._run(lambda: self._blobs.delete_incoming(since))
        return await self._sweep(layer_sweep, frozenset(layers)) + await self._sweep(
            memory_sweep, frozenset(memories)
        )

    async def clear_drafts(self) -> None:
        await self._run(self._clear)

    async def free_bytes(self) -> int:
        status = await asyncio.to_thread(os.statvfs, self.folder)
        return status.f_bavail * status.f_frsize

    async def _sweep(self, sweep: Sweep, wanted: frozenset[str]) -> int:
        gone = 0
        for artefact_id in await self._run(sweep.ids):
            if artefact_id not in wanted:
                gone += await self._remove_unused(sweep, artefact_id)
        return gone

    async def _remove_unused(self, sweep: Sweep, artefact_id: str) -> bool:
        """Not while anything else is done to it, and not while files it may share are archived."""
        async with self._merging, self._alone(artefact_id):
            since = self._clock.now() - GRACE
            return await finish(self._run(lambda: sweep.remove_unused(artefact_id, since)))

    def _clear(self) -> None:
        self._drafts.clear()
        self._blobs.clear_drafts()
        boot = self.folder / "boot"
        if not boot.exists() or boot.read_text() != self._boot_id:
            for layer_id in self._layer_shelf.ids():
                self._layer_shelf.remove(layer_id)
            boot.write_text(self._boot_id)

    @asynccontextmanager
    async def _alone(self, artefact_id: str) -> AsyncGenerator[None]:
        lock = self._locks.setdefault(artefact_id, asyncio.Lock())
        async with lock:
            yield

    async def _run(self, work: Callable[[], T]) -> T:
        """In a thread of its own: pools are for what is short. Who calls this sees to it that it ends."""

        def translating() -> T:
            with translated():
                return work()

        return await run_in_own_thread(translating, name="artefacts")

    async def _run_in_turn(self, work: Callable[[], T]) -> T:
        """For what reads or writes much: a few at once, so that none of them takes for ever."""
        async with self._slots:
            return await self._run(work)
