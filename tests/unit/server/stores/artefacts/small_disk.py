"""What happens on a disk with hardly any room. A program of its own, because mount namespaces belong to
threads, and the blob store's threads live as long as their process."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path

from obstore.store import LocalStore

from opencomputer.server.domain.errors import HostDiskFull
from opencomputer.server.host.kernel import Unshare, mount, unshare
from opencomputer.server.host.mounts import detach_propagation
from opencomputer.server.stores.artefacts.store import BlobArtefacts
from tests.unit.server.stores.artefacts.conftest import Bench, HandClock, draft_with, memory, text

_ROOM = 12 << 20
_MIB = 1 << 20


async def layer_that_does_not_fit(bench: Bench) -> None:
    artefacts = bench.open()
    draft = await draft_with(artefacts, text(a="1" * (8 * _MIB)))
    before = _used(bench)
    await _is_full(artefacts.keep_layer(draft))
    assert (bench.unpacked, bench.blob_files) == ([], [])
    assert _used(bench) <= before + 64 * 1024, "room is lost"
    await artefacts.discard_draft(draft.parent)
    assert _used(bench) < _MIB, "room is lost"


async def layer_that_is_streamed_and_does_not_fit(bench: Bench) -> None:
    """The draft has room, on another disk; the store has not."""
    roomy = bench.folder.parent / "roomy"
    artefacts = BlobArtefacts(roomy, bench.clock, store=LocalStore(bench.folder))
    draft = await draft_with(artefacts, text(a="1" * (20 * _MIB)))
    await _is_full(artefacts.keep_layer(draft))
    assert [path for path in bench.folder.rglob("*") if path.is_file()] == []


async def layer_that_cannot_be_unpacked(bench: Bench) -> None:
    artefacts = bench.open()
    kept = await artefacts.keep_layer(await draft_with(artefacts, text(a="1" * (5 * _MIB))))
    shutil.rmtree(bench.folder / "layers" / kept.id)
    (bench.folder / "filling").write_bytes(bytes(5 * _MIB))
    before = _used(bench)
    await _is_full(artefacts.layer(kept.id))
    assert bench.unpacked == []
    assert _used(bench) <= before + 64 * 1024, "room is lost"
    (bench.folder / "filling").unlink()
    assert (await artefacts.layer(kept.id) / "a").stat().st_size == 5 * _MIB


async def image_that_is_most_of_the_disk(bench: Bench) -> None:
    artefacts = bench.open()
    kept = await artefacts.keep_memory(await draft_with(artefacts, memory(10 * _MIB)))
    assert (await artefacts.memory(kept.id) / "pages").exists()
    assert await artefacts.free_bytes() < 2 * _MIB


SCENARIOS: Mapping[str, Callable[[Bench], Coroutine[None, None, None]]] = {
    each.__name__: each
    for each in (
        layer_that_does_not_fit,
        layer_that_is_streamed_and_does_not_fit,
        layer_that_cannot_be_unpacked,
        image_that_is_most_of_the_disk,
    )
}


def _used(bench: Bench) -> int:
    status = os.statvfs(bench.folder)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


async def _is_full(work: Awaitable[object]) -> None:
    try:
        await work
    except HostDiskFull:
        return
    raise AssertionError("it was not noticed that the disk is full")


def main(scenario: str, folder: Path) -> None:
    unshare(Unshare.MOUNTS)
    detach_propagation()
    bench = Bench(folder / "artefacts", HandClock())
    bench.folder.mkdir()
    mount("none", bench.folder, kind="tmpfs", options=f"size={_ROOM}")
    asyncio.run(SCENARIOS[scenario](bench))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
