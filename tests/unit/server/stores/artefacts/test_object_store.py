"""The same artefacts on a store that is no folder, which is what S3 is to us."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta

import obstore
import pytest
from obstore.store import MemoryStore

from opencomputer.server.domain.errors import ArtefactDamaged
from opencomputer.server.stores.artefacts.store import GRACE
from tests.unit.server.stores.artefacts.conftest import HARMS, Bench, draft_with, memory, text

pytestmark = pytest.mark.anyio


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def bench(bench: Bench, store: MemoryStore) -> Bench:
    return replace(bench, store=store)


def keys(store: MemoryStore) -> set[str]:
    found = obstore.list(store).collect()  # pyright: ignore[reportUnknownMemberType]  # Arrow's, if it were there
    return {each["path"] for each in found}


async def test_layers_of_any_size_come_back_from_the_store(bench: Bench, store: MemoryStore) -> None:
    artefacts = bench.open()
    for content in ("1", "1" * (20 << 20)):
        kept = await artefacts.keep_layer(await draft_with(artefacts, text(a=content)))
        shutil.rmtree(bench.folder / "layers" / kept.id)
        assert (await artefacts.layer(kept.id) / "a").read_text() == content
    assert len(keys(store)) == 2


async def test_an_image_comes_back_with_its_holes(bench: Bench) -> None:
    artefacts = bench.open()
    kept = await artefacts.keep_memory(await draft_with(artefacts, memory()))
    saved = (await artefacts.memory(kept.id) / "pages").read_bytes()
    shutil.rmtree(bench.folder / "memories" / kept.id)
    pages = await artefacts.memory(kept.id) / "pages"
    assert pages.read_bytes() == saved
    assert pages.stat().st_blocks * 512 < 4 << 20


async def test_a_damaged_copy_is_replaced_from_the_store(bench: Bench) -> None:
    """Here the store has bytes of its own."""
    artefacts = bench.open()
    kept = await artefacts.keep_memory(await draft_with(artefacts, memory()))
    pages = await artefacts.memory(kept.id) / "pages"
    saved = pages.read_bytes()
    HARMS["a flipped bit"](pages)
    assert (await artefacts.memory(kept.id) / "pages").read_bytes() == saved


async def test_a_damaged_blob_is_noticed(bench: Bench, store: MemoryStore) -> None:
    artefacts = bench.open()
    kept = await artefacts.keep_memory(await draft_with(artefacts, memory()))
    shutil.rmtree(bench.folder / "memories" / kept.id)
    obstore.put(store, f"memories/{kept.id}/0", b"other bytes")
    with pytest.raises(ArtefactDamaged):
        await artefacts.memory(kept.id)
    assert bench.unpacked == []


async def test_everything_is_collected(bench: Bench, store: MemoryStore) -> None:
    artefacts = bench.open()
    await artefacts.keep_layer(await draft_with(artefacts, text(a="1")))
    await artefacts.keep_memory(await draft_with(artefacts, memory()))
    bench.clock.time += GRACE + timedelta(minutes=1)
    assert await artefacts.collect(frozenset(), frozenset()) == 2
    assert (keys(store), bench.unpacked) == (set(), [])


async def test_uploads_of_other_nodes_are_left_alone(bench: Bench, store: MemoryStore) -> None:
    """A node that starts knows only that what is in its own folder is nobody else's."""
    obstore.put(store, "incoming/somebody", b"half")
    await bench.open().clear_drafts()
    assert keys(store) == {"incoming/somebody"}
