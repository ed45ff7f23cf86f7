"""Keeping layers, and getting back what they mean."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from opencomputer.server.domain.errors import ArtefactDamaged, ArtefactMissing
from opencomputer.server.domain.layers import LayerId
from opencomputer.server.stores.artefacts.store import BlobArtefacts
from tests.unit.server.stores.artefacts.conftest import HARMS, Bench, Interruptions, draft_with, text
from tests.unit.server.stores.artefacts.overlays import fill, view_of

pytestmark = pytest.mark.anyio


def everything(folder: Path) -> None:
    """One of each kind of thing that a layer can hold."""
    top = os.fsencode(folder)
    for name in (
        b"plain",
        b"\xff\xfe no text",
        b"new\nline",
        b"-dash",
        b"back\\slash",
        b"*",
        b"\xc3\xa4",
        b"x" * 255,
    ):
        with open(os.path.join(top, name), "wb") as file:
            file.write(name)
    plain = folder / "plain"
    os.chown(plain, 1000, 70000)
    plain.chmod(0o4751)
    os.setxattr(plain, "user.note", b"\0\n=")
    os.setxattr(plain, "security.capability", bytes.fromhex("0100000200040000") + bytes(12))
    os.utime(plain, ns=(1, 1_000_000_001))
    os.link(plain, folder / "same")
    (folder / "pointer").symlink_to("/nowhere/at/all")
    (folder / "up").symlink_to("../../nowhere")
    os.link(folder / "up", folder / "up too", follow_symlinks=False)
    os.lchown(folder / "pointer", 5, 6)
    os.utime(folder / "pointer", ns=(5, 77_000_000_005), follow_symlinks=False)
    os.mknod(folder / "deleted", stat.S_IFCHR, 0)
    os.mknod(folder / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mkfifo(folder / "fifo")
    (folder / "opaque").mkdir()
    os.setxattr(folder / "opaque", "trusted.overlay.opaque", b"y")
    (folder / "moved").mkdir()
    os.setxattr(folder / "moved", "trusted.overlay.redirect", b"/a/b")
    os.utime(folder / "moved", ns=(1, 1_234_567_890_123_456_789))
    (folder / "/".join(["deep" * 20] * 15)).parent.mkdir(parents=True)


def sparse(folder: Path) -> None:
    with open(folder / "sparse", "wb") as file:
        file.truncate(64 << 20)
        file.seek(10 << 20)
        file.write(b"an island")


async def repacked(bench: Bench, layer_id: LayerId) -> Path:
    """The layer as a host gets it that has only the archive."""
    shutil.rmtree(bench.folder / "layers" / layer_id)
    return await bench.open().layer(layer_id)


async def test_what_a_layer_holds_survives_the_archive(bench: Bench) -> None:
    """Owners, modes, times, attributes, links, devices, odd names: an unpacked archive is the same layer."""
    artefacts = bench.open()
    kept = await artefacts.keep_layer(await draft_with(artefacts, everything))
    saved = view_of(await artefacts.layer(kept.id))
    assert view_of(await repacked(bench, kept.id)) == saved


async def test_what_programs_do_in_an_overlay_survives_the_archive(bench: Bench) -> None:
    artefacts = bench.open()
    draft = await draft_with(artefacts, lambda folder: fill(folder, random.Random(7), deeds=200))
    kept = await artefacts.keep_layer(draft)
    saved = view_of(await artefacts.layer(kept.id))
    assert view_of(await repacked(bench, kept.id)) == saved


async def test_holes_stay_holes(bench: Bench) -> None:
    artefacts = bench.open()
    kept = await artefacts.keep_layer(await draft_with(artefacts, sparse))
    file = await repacked(bench, kept.id) / "sparse"
    assert kept.size_bytes < 1 << 20
    assert file.stat().st_blocks * 512 < 1 << 20
    assert (file.stat().st_size, file.read_bytes()[10 << 20 :][:9]) == (64 << 20, b"an island")


async def test_a_socket_goes_and_still_hides_what_is_below(bench: Bench) -> None:
    """Archives know no sockets, and nobody listens any more. The name must not show a lower file again."""

    def listen(folder: Path) -> None:
        os.mknod(folder / "socket", stat.S_IFSOCK | 0o600)

    artefacts = bench.open()
    kept = await artefacts.keep_layer(await draft_with(artefacts, listen))
    for folder in (await artefacts.layer(kept.id), await repacked(bench, kept.id)):
        status = (folder / "socket").lstat()
        assert (stat.S_ISCHR(status.st_mode), status.st_rdev) == (True, 0)


async def test_equal_layers_are_one(bench: Bench) -> None:
    """Whenever and in whatever order their files were written."""
    artefacts = bench.open()
    first = await artefacts.keep_layer(await draft_with(artefacts, text(a="1", b="2")))
    second = await artefacts.keep_layer(await draft_with(artefacts, text(b="2", a="1")))
    assert first == second
    assert bench.unpacked == [first.id]


Change = Callable[[Path], object]
CHANGES: Mapping[str, Change] = {
    "content": lambda file: file.write_text("other"),
    "mode": lambda file: file.chmod(0o600),
    "owner": lambda file: os.chown(file, 7, 7),
    "time": lambda file: os.utime(file, ns=(0, 1)),
    "attribute": lambda file: os.setxattr(file, "user.a", b"b"),
    "name": lambda file: file.rename(file.with_name("renamed")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_different_layers_are_two(bench: Bench, change: Change) -> None:
    artefacts = bench.open()
    first = await artefacts.keep_layer(await draft_with(artefacts, text(a="1")))
    draft = await draft_with(artefacts, text(a="1"))
    change(draft / "a")
    assert (await artefacts.keep_layer(draft)).id != first.id


async def test_a_kept_layer_is_not_written_again(bench: Bench) -> None:
    artefacts = bench.open()
    await artefacts.keep_layer(await draft_with(artefacts, text(a="1")))
    [blob] = bench.blob_files
    inode = blob.stat().st_ino
    await artefacts.keep_layer(await draft_with(artefacts, text(a="1")))
    assert [each.stat().st_ino for each in bench.blob_files] == [inode]


async def test_the_folder_is_taken(bench: Bench) -> None:
    """No matter whether its content was there already."""
    artefacts = bench.open()
    drafts = [await draft_with(artefacts, text(a="1")) for _ in range(2)]
    for draft in drafts:
        await artefacts.keep_layer(draft)
    assert [draft.exists() for draft in drafts] == [False, False]


async def test_a_large_layer_is_streamed_to_the_store(bench: Bench) -> None:
    """More than is held in memory at once, and kept twice: the second archive gives way to the first."""
    content = bytes(range(256)) * (96 << 10)

    def fill_large(folder: Path) -> None:
        (folder / "large").write_bytes(content)
        os.utime(folder / "large", (1, 1))

    artefacts = bench.open()
    kept = [await artefacts.keep_layer(await draft_with(artefacts, fill_large)) for _ in range(2)]
    assert kept[0] == kept[1]
    assert [blob.name for blob in bench.blob_files] == [f"{kept[0].id}.tar"]
    assert (await repacked(bench, kept[0].id) / "large").read_bytes() == content


async def test_nobody_but_root_reaches_the_files(bench: Bench) -> None:
    artefacts = bench.open()
    await artefacts.keep_layer(await draft_with(artefacts, text(a="1")))
    folders = [bench.folder, *(each for each in bench.folder.iterdir() if each.is_dir())]
    assert {stat.S_IMODE(each.stat().st_mode) for each in folders} == {0o700}


async def test_a_layer_that_was_never_kept_is_missing(bench: Bench) -> None:
    with pytest.raises(ArtefactMissing):
        await bench.open().layer(LayerId("0" * 64))
    assert (bench.unpacked, bench.drafts) == ([], [])


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
async def test_a_damaged_archive_is_noticed_and_not_used(bench: Bench, harm: Change) -> None:
    artefacts = bench.open()
    kept = await artefacts.keep_layer(await draft_with(artefacts, everything))
    drafts = bench.drafts
    harm(bench.blob_files[0])
    with pytest.raises(ArtefactDamaged):
        await repacked(bench, kept.id)
    assert (bench.unpacked, bench.drafts) == ([], drafts)


async def test_fifty_who_ask_at_once_unpack_once(bench: Bench) -> None:
    artefacts = bench.open()
    kept = await artefacts.keep_layer(await draft_with(artefacts, text(a="1")))
    shutil.rmtree(bench.folder / "layers" / kept.id)
    interruptions = Interruptions()
    again = bench.open(interruptions)
    folders = await asyncio.gather(*(again.layer(kept.id) for _ in range(50)))
    assert interruptions.steps.count("unpacked") == 1
    assert {(folder / "a").read_text() for folder in folders} == {"1"}


async def test_who_gives_up_leaves_the_layer_whole(bench: Bench) -> None:
    """Cancelled in the middle, unpacking goes on to its end, and the next one finds a layer."""
    artefacts = bench.open()
    kept = await artefacts.keep_layer(await draft_with(artefacts, everything))
    shutil.rmtree(bench.folder / "layers" / kept.id)
    asking = asyncio.ensure_future(artefacts.layer(kept.id))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert bench.unpacked == [kept.id]


async def test_unpacked_copies_count_until_the_host_starts_anew(bench: Bench) -> None:
    """They were never forced to the disk. After a crash of the host the verified archive is the truth."""
    artefacts = bench.open(boot_id="one")
    await artefacts.clear_drafts()
    kept = await artefacts.keep_layer(await draft_with(artefacts, text(a="1")))
    (await artefacts.layer(kept.id) / "a").write_text("lost half-way to the disk")

    same_boot = bench.open(boot_id="one")
    await same_boot.clear_drafts()
    assert (await same_boot.layer(kept.id) / "a").read_text() != "1"

    next_boot = bench.open(boot_id="two")
    await next_boot.clear_drafts()
    assert (await next_boot.layer(kept.id) / "a").read_text() == "1"


async def test_the_loop_is_not_blocked(bench: Bench) -> None:
    """While a layer is kept others have their turn."""
    artefacts: BlobArtefacts = bench.open()
    draft = await draft_with(artefacts, lambda folder: fill(folder, random.Random(1), deeds=100))
    keeping = asyncio.ensure_future(artefacts.keep_layer(draft))
    turns = 0
    while not keeping.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 10
