"""Removing what nobody wants: everything of it, nothing else, and not too early."""

from __future__ import annotations

import asyncio
import shutil
from datetime import timedelta

import pytest

from opencomputer.server.contracts.artefacts import KeptLayer, KeptMemory
from opencomputer.server.domain.errors import ArtefactMissing
from opencomputer.server.stores.artefacts.store import GRACE, BlobArtefacts
from tests.unit.server.stores.artefacts.conftest import Bench, draft_with, memory, text

pytestmark = pytest.mark.anyio
NOTHING = frozenset[str]()


async def layer(artefacts: BlobArtefacts, content: str = "1") -> KeptLayer:
    return await artefacts.keep_layer(await draft_with(artefacts, text(a=content)))


async def image(artefacts: BlobArtefacts) -> KeptMemory:
    return await artefacts.keep_memory(await draft_with(artefacts, memory()))


async def test_what_nobody_wants_goes_with_all_of_its_files(bench: Bench) -> None:
    artefacts = bench.open()
    await layer(artefacts)
    await image(artefacts)
    bench.clock.time += GRACE + timedelta(seconds=1)
    assert await artefacts.collect(frozenset(), frozenset()) == 2
    assert (bench.unpacked, bench.blob_files) == ([], [])
    assert list((bench.folder / "blobs" / "memories").iterdir()) == []


async def test_what_is_wanted_stays(bench: Bench) -> None:
    artefacts = bench.open()
    kept, memory_image = await layer(artefacts), await image(artefacts)
    bench.clock.time += timedelta(days=365)
    assert await artefacts.collect(frozenset({kept.id}), frozenset({memory_image.id})) == 0
    assert (await artefacts.layer(kept.id) / "a").exists()
    assert (await artefacts.memory(memory_image.id) / "pages").exists()


async def test_what_was_just_kept_stays_for_a_while(bench: Bench) -> None:
    """Its user may not have written down yet that it wants it."""
    artefacts = bench.open()
    await layer(artefacts)
    await image(artefacts)
    bench.clock.time += GRACE - timedelta(seconds=1)
    assert await artefacts.collect(frozenset(), frozenset()) == 0


async def test_asking_for_something_begins_the_while_again(bench: Bench) -> None:
    artefacts = bench.open()
    kept, memory_image = await layer(artefacts), await image(artefacts)
    bench.clock.time += GRACE - timedelta(seconds=1)
    await artefacts.layer(kept.id)
    await artefacts.memory(memory_image.id)
    bench.clock.time += timedelta(minutes=2)
    assert await artefacts.collect(frozenset(), frozenset()) == 0


async def test_keeping_the_same_again_begins_the_while_again(bench: Bench) -> None:
    artefacts = bench.open()
    await layer(artefacts)
    await image(artefacts)
    bench.clock.time += GRACE - timedelta(seconds=1)
    await layer(artefacts)
    await image(artefacts)
    bench.clock.time += timedelta(minutes=2)
    assert await artefacts.collect(frozenset(), frozenset()) == 0


async def test_the_while_outlives_the_process(bench: Bench) -> None:
    await layer(bench.open())
    bench.clock.time += GRACE - timedelta(seconds=1)
    assert await bench.open().collect(frozenset(), frozenset()) == 0
    bench.clock.time += timedelta(seconds=2)
    assert await bench.open().collect(frozenset(), frozenset()) == 1


async def test_an_archive_without_a_copy_goes_too(bench: Bench) -> None:
    artefacts = bench.open()
    for kept in (await layer(artefacts), await image(artefacts)):
        for kind in ("layers", "memories"):
            shutil.rmtree(bench.folder / kind / kept.id, ignore_errors=True)
    bench.clock.time += GRACE + timedelta(seconds=1)
    assert await artefacts.collect(frozenset(), frozenset()) == 2
    assert bench.blob_files == []


async def test_a_copy_without_an_archive_goes_too(bench: Bench) -> None:
    artefacts = bench.open()
    await layer(artefacts)
    await image(artefacts)
    for blob in bench.blob_files:
        blob.unlink()
    bench.clock.time += GRACE + timedelta(seconds=1)
    assert await artefacts.collect(frozenset(), frozenset()) == 2
    assert bench.unpacked == []


async def test_files_of_an_image_that_never_got_its_manifest_go(bench: Bench) -> None:
    artefacts = bench.open()
    kept = await image(artefacts)
    (bench.folder / "blobs" / "memories" / kept.id / "manifest.json").unlink()
    shutil.rmtree(bench.folder / "memories" / kept.id)
    bench.clock.time += GRACE + timedelta(seconds=1)
    await artefacts.collect(frozenset(), frozenset())
    assert bench.blob_files == []


async def test_an_upload_that_was_never_finished_goes(bench: Bench) -> None:
    artefacts = bench.open()
    (bench.folder / "blobs" / "incoming" / "half").write_bytes(b"half")
    await artefacts.collect(frozenset(), frozenset())
    assert len(bench.blob_files) == 1
    bench.clock.time += GRACE + timedelta(seconds=1)
    await artefacts.collect(frozenset(), frozenset())
    assert bench.blob_files == []


async def test_what_went_is_missing_and_can_be_kept_again(bench: Bench) -> None:
    artefacts = bench.open()
    kept = await layer(artefacts)
    bench.clock.time += GRACE + timedelta(seconds=1)
    await artefacts.collect(frozenset(), frozenset())
    with pytest.raises(ArtefactMissing):
        await artefacts.layer(kept.id)
    assert await layer(artefacts) == kept
    assert (await artefacts.layer(kept.id) / "a").read_text() == "1"


async def test_collecting_among_all_else_harms_nothing_that_is_used(bench: Bench) -> None:
    """Layers are kept, asked for, merged and collected at once, while time passes."""
    artefacts = bench.open()
    kept = [await layer(artefacts, str(number)) for number in range(4)]
    wanted = frozenset(each.id for each in kept)

    async def collect() -> None:
        for number in range(5):
            bench.clock.time += timedelta(minutes=10)
            await layer(artefacts, f"passing {number}")
            await artefacts.collect(wanted, frozenset())

    async def use() -> None:
        for each in kept * 3:
            folder = await artefacts.layer(each.id)
            assert (folder / "a").exists()

    async def merge() -> None:
        for _ in range(3):
            merged = await artefacts.merge([each.id for each in kept])
            assert (await artefacts.layer(merged.id) / "a").read_text() == "3"

    await asyncio.gather(collect(), use(), use(), merge())
    assert wanted <= set(bench.unpacked)
