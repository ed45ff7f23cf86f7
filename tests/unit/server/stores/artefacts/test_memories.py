"""Keeping memory images: quickly, and never handing out one that is not as it was saved."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from opencomputer.server.domain.errors import ArtefactDamaged, ArtefactMissing
from opencomputer.server.domain.layers import MemoryId
from opencomputer.server.stores.artefacts.store import BlobArtefacts
from tests.unit.server.stores.artefacts.conftest import (
    HARMS,
    Bench,
    Fill,
    Interruptions,
    draft_with,
    memory,
)

pytestmark = pytest.mark.anyio


async def keep(artefacts: BlobArtefacts, size_bytes: int = 3 << 20) -> MemoryId:
    return (await artefacts.keep_memory(await draft_with(artefacts, memory(size_bytes)))).id


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


async def test_an_image_comes_back_as_it_was_saved(bench: Bench) -> None:
    artefacts = bench.open()
    draft = await draft_with(artefacts, memory())
    saved = contents(draft)
    kept = await artefacts.keep_memory(draft)
    assert contents(await artefacts.memory(kept.id)) == saved
    assert kept.size_bytes == sum(map(len, saved.values()))
    assert not draft.exists()


async def test_an_image_is_not_copied(bench: Bench) -> None:
    """Its files in the store and the unpacked ones are the same, so keeping it takes no more room."""
    artefacts = bench.open()
    folder = await artefacts.memory(await keep(artefacts))
    assert (folder / "pages").stat().st_ino in {blob.stat().st_ino for blob in bench.blob_files}
    assert (folder / "pages").stat().st_blocks * 512 < 4 << 20


async def test_equal_images_are_one(bench: Bench) -> None:
    artefacts = bench.open()
    assert await keep(artefacts) == await keep(artefacts)
    assert len(bench.unpacked) == 1


async def test_images_that_differ_in_one_byte_are_two(bench: Bench) -> None:
    artefacts = bench.open()
    first = await keep(artefacts)
    draft = await draft_with(artefacts, memory())
    HARMS["a flipped bit"](draft / "pages")
    assert (await artefacts.keep_memory(draft)).id != first


async def test_an_image_without_its_copy_is_fetched(bench: Bench) -> None:
    artefacts = bench.open()
    memory_id = await keep(artefacts)
    saved = contents(await artefacts.memory(memory_id))
    shutil.rmtree(bench.folder / "memories" / memory_id)
    assert contents(await artefacts.memory(memory_id)) == saved


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
async def test_damage_is_noticed_in_the_process_that_kept_it(bench: Bench, harm: Fill) -> None:
    """It was read once already, but its file looks different now."""
    artefacts = bench.open()
    memory_id = await keep(artefacts)
    harm(await artefacts.memory(memory_id) / "pages")
    with pytest.raises(ArtefactDamaged):
        await artefacts.memory(memory_id)
    assert bench.unpacked == []


async def test_damage_that_leaves_no_trace_is_noticed_by_the_next_process(bench: Bench) -> None:
    """A disk changes bytes without changing times."""
    artefacts = bench.open()
    memory_id = await keep(artefacts)
    pages = await artefacts.memory(memory_id) / "pages"
    times = pages.stat()
    HARMS["a flipped bit"](pages)
    os.utime(pages, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(ArtefactDamaged):
        await bench.open().memory(memory_id)


@pytest.mark.parametrize("name", ["manifest.json", "0"])
async def test_a_blob_that_is_lost_is_not_made_up_for(bench: Bench, name: str) -> None:
    artefacts = bench.open()
    memory_id = await keep(artefacts)
    drafts = bench.drafts
    shutil.rmtree(bench.folder / "memories" / memory_id)
    (bench.folder / "blobs" / "memories" / memory_id / name).unlink()
    with pytest.raises(ArtefactMissing if name == "manifest.json" else ArtefactDamaged):
        await artefacts.memory(memory_id)
    assert (bench.unpacked, bench.drafts) == ([], drafts)


async def test_a_damaged_manifest_is_noticed(bench: Bench) -> None:
    artefacts = bench.open()
    memory_id = await keep(artefacts)
    shutil.rmtree(bench.folder / "memories" / memory_id)
    HARMS["a flipped bit"](bench.folder / "blobs" / "memories" / memory_id / "manifest.json")
    with pytest.raises(ArtefactDamaged):
        await artefacts.memory(memory_id)


async def test_a_missing_file_of_the_copy_comes_back_from_the_store(bench: Bench) -> None:
    artefacts = bench.open()
    memory_id = await keep(artefacts)
    folder = await artefacts.memory(memory_id)
    saved = contents(folder)
    (folder / "kernel" / "state").unlink()
    assert contents(await artefacts.memory(memory_id)) == saved


async def test_fifty_who_ask_at_once_fetch_once(bench: Bench) -> None:
    memory_id = await keep(bench.open())
    shutil.rmtree(bench.folder / "memories" / memory_id)
    interruptions = Interruptions()
    artefacts = bench.open(interruptions)
    await asyncio.gather(*(artefacts.memory(memory_id) for _ in range(50)))
    assert interruptions.steps.count("fetched") == 1


async def test_an_image_that_was_never_kept_is_missing(bench: Bench) -> None:
    with pytest.raises(ArtefactMissing):
        await bench.open().memory(MemoryId("0" * 64))


async def test_what_is_no_image_is_refused(bench: Bench) -> None:
    """A link in it could lead anywhere."""
    artefacts = bench.open()
    draft = await draft_with(artefacts, lambda folder: (folder / "pages").symlink_to("/nowhere"))
    with pytest.raises(ValueError):
        await artefacts.keep_memory(draft)
    assert (bench.unpacked, bench.blob_files) == ([], [])
