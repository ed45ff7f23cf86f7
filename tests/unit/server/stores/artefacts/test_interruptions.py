"""The process ends at any moment: the next one finds each artefact whole or not there, and clears up."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from opencomputer.server.domain.errors import ArtefactMissing
from opencomputer.server.domain.layers import LayerId, MemoryId
from opencomputer.server.stores.artefacts.store import GRACE, BlobArtefacts
from tests.unit.server.stores.artefacts.conftest import Bench, Interruptions, Killed, draft_with, memory, text

pytestmark = pytest.mark.anyio

Act = Callable[[BlobArtefacts], Awaitable[object]]


async def keep_small(artefacts: BlobArtefacts) -> object:
    return await artefacts.keep_layer(await draft_with(artefacts, text(a="1")))


async def keep_large(artefacts: BlobArtefacts) -> object:
    """Too large to be held in memory until its name is known."""
    return await artefacts.keep_layer(await draft_with(artefacts, text(a="1" * (17 << 20))))


async def keep_image(artefacts: BlobArtefacts) -> object:
    return await artefacts.keep_memory(await draft_with(artefacts, memory()))


async def unpack(artefacts: BlobArtefacts) -> object:
    kept = await artefacts.keep_layer(await draft_with(artefacts, text(a="1")))
    shutil.rmtree(artefacts.folder / "layers" / kept.id)
    return await artefacts.layer(kept.id)


async def fetch_image(artefacts: BlobArtefacts) -> object:
    kept = await artefacts.keep_memory(await draft_with(artefacts, memory()))
    shutil.rmtree(artefacts.folder / "memories" / kept.id)
    return await artefacts.memory(kept.id)


async def merge(artefacts: BlobArtefacts) -> object:
    kept = [await artefacts.keep_layer(await draft_with(artefacts, text(**{name: name}))) for name in "ab"]
    return await artefacts.merge([each.id for each in kept])


ACTS: Mapping[str, Act] = {
    "keep a small layer": keep_small,
    "keep a large layer": keep_large,
    "keep an image": keep_image,
    "unpack a layer": unpack,
    "fetch an image": fetch_image,
    "merge layers": merge,
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
async def test_nothing_half_made_is_ever_seen(bench: Bench, act: Act) -> None:
    """Ended ahead of each step in turn. The next process clears up, and can use whatever has a name."""
    steps = Interruptions()
    await act(bench.open(steps))
    for at in range(1, len(steps.steps) + 1):
        cut = replace(bench, folder=bench.folder.with_name(f"cut at {at}"))
        with pytest.raises(Killed):
            await act(cut.open(Interruptions(at)))
        artefacts = cut.open()
        await artefacts.clear_drafts()
        assert cut.drafts == []
        await _check_all(cut, artefacts)
        await act(cut.open())
    assert len(steps.steps) > 2


async def _check_all(bench: Bench, artefacts: BlobArtefacts) -> None:
    """Everything that has a name is whole: an archive, a copy, an image."""
    for name in _names(bench, "layers"):
        assert list((await artefacts.layer(LayerId(name))).iterdir()) != []
    for name in _names(bench, "memories"):
        try:
            assert (await artefacts.memory(MemoryId(name)) / "pages").exists()
        except ArtefactMissing:
            # Its files have arrived, its manifest has not: to the store this is no image.
            assert not (bench.folder / "blobs" / "memories" / name / "manifest.json").exists()
    assert not any(blob.parent.name == "incoming" for blob in bench.blob_files)


def _names(bench: Bench, kind: str) -> set[str]:
    blobs = (bench.folder / "blobs" / kind).glob("*")
    return {blob.name.removesuffix(".tar") for blob in blobs} | {
        copy.name for copy in (bench.folder / kind).iterdir()
    }


@pytest.mark.parametrize("at", range(1, 5))
async def test_collecting_can_end_anywhere(bench: Bench, at: int) -> None:
    """What remains is whole, or goes the next time."""
    artefacts = bench.open()
    await keep_small(artefacts)
    await keep_image(artefacts)
    bench.clock.time += GRACE + timedelta(seconds=1)
    try:
        await bench.open(Interruptions(at)).collect(frozenset(), frozenset())
    except Killed:
        pass
    again = bench.open()
    await again.clear_drafts()
    await again.collect(frozenset(), frozenset())
    assert (bench.drafts, bench.unpacked, bench.blob_files) == ([], [], [])


async def test_drafts_of_earlier_processes_are_cleared(bench: Bench) -> None:
    artefacts = bench.open()
    draft = await artefacts.new_draft()
    draft.mkdir()
    await bench.open().clear_drafts()
    assert bench.drafts == []


async def test_what_the_store_itself_had_begun_is_cleared(bench: Bench) -> None:
    """It writes beside the blob, under a name that it does not list."""
    bench.open()
    begun = [bench.folder / "blobs" / name for name in ("layers/a.tar#1", "memories/b/0#2", "incoming/c#1")]
    for draft in begun:
        draft.parent.mkdir(exist_ok=True)
        draft.write_bytes(b"half")
    await bench.open().clear_drafts()
    assert not any(draft.exists() for draft in begun)


async def test_drafts_are_unique(bench: Bench) -> None:
    artefacts = bench.open()
    drafts = {await artefacts.new_draft() for _ in range(100)}
    assert len(drafts) == 100
    assert not any(draft.exists() for draft in drafts)


async def test_a_discarded_draft_is_gone(bench: Bench) -> None:
    """Also one that was never made."""
    artefacts = bench.open()
    draft = await draft_with(artefacts, text(a="1"))
    await artefacts.discard_draft(draft.parent)
    await artefacts.discard_draft(await artefacts.new_draft())
    assert bench.drafts == []
