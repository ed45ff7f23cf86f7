"""Files of a machine, over the real link to a real guest."""

from __future__ import annotations

import asyncio
import os
import random
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from opencomputer.server.domain.byte_ranges import ByteRange, Span
from opencomputer.server.domain.errors import (
    DiskFull,
    FileConflict,
    FileMissing,
    GuestFault,
    InvalidInput,
    NotADirectory,
    NotAFile,
    RangeNotSatisfiable,
)
from opencomputer.server.machines.link import Link
from opencomputer.server.machines.machine import LinkedMachine
from tests.support.cuttable_proxy import cuttable_proxy
from tests.support.host_guest import TOKEN, HostGuest
from tests.support.real_clock import RealClock
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def read(machine: LinkedMachine, path: str) -> bytes:
    async with machine.files.read(path) as content:
        return b"".join([chunk async for chunk in content.chunks])


async def test_what_is_written_is_read_again(machine: LinkedMachine, home: Path) -> None:
    data = os.urandom(5_000_000)
    await machine.files.write("data", pieces(data[:3], data[3:700_000], b"", data[700_000:]))
    assert (home / "data").read_bytes() == data
    assert await read(machine, str(home / "data")) == data


async def test_an_empty_file_has_size_zero(machine: LinkedMachine, home: Path) -> None:
    await machine.files.write("empty", pieces())
    async with machine.files.read("empty") as content:
        assert content.size_bytes == 0
        assert [chunk async for chunk in content.chunks] == []
    assert stat.S_IMODE((home / "empty").stat().st_mode) == 0o644


async def test_a_file_tells_its_size_before_its_content(machine: LinkedMachine, home: Path) -> None:
    (home / "file").write_bytes(b"x" * 1000)
    async with machine.files.read("file") as content:
        assert content.size_bytes == 1000


async def test_a_file_of_the_kernel_is_read_to_its_end(machine: LinkedMachine) -> None:
    async with machine.files.read("/proc/self/stat") as content:
        assert content.size_bytes is None
        assert b"".join([chunk async for chunk in content.chunks]).endswith(b"\n")


async def test_a_reader_may_leave_early(machine: LinkedMachine, home: Path) -> None:
    (home / "big").write_bytes(bytes(20_000_000))
    for _ in range(5):
        async with machine.files.read("big") as content:
            async for _chunk in content.chunks:
                break
    assert await read(machine, "big") == bytes(20_000_000)


async def test_a_reader_that_pauses_holds_nobody_up(machine: LinkedMachine, home: Path) -> None:
    (home / "big").write_bytes(bytes(20_000_000))
    async with machine.files.read("big") as paused:
        await machine.files.write("other", pieces(b"x"))
        assert await read(machine, "big") == bytes(20_000_000)
        total = 0
        async for chunk in paused.chunks:
            total += len(chunk)
    assert total == 20_000_000


async def test_a_file_that_shrinks_while_it_is_read_is_an_error(machine: LinkedMachine, home: Path) -> None:
    (home / "big").write_bytes(bytes(20_000_000))
    with pytest.raises(GuestFault):  # noqa: PT012 - the reading is the thing under test
        async with machine.files.read("big") as content:
            async for _chunk in content.chunks:
                os.truncate(home / "big", 1000)


async def test_a_file_that_grows_while_it_is_read_ends_at_its_first_size(
    machine: LinkedMachine, home: Path
) -> None:
    (home / "log").write_bytes(bytes(5_000_000))
    total = 0
    async with machine.files.read("log") as content:
        async for chunk in content.chunks:
            total += len(chunk)
            with (home / "log").open("ab") as file:
                file.write(b"more")
    assert total == 5_000_000


PARTS = [
    (ByteRange(0, 0), 0, 1),
    (ByteRange(4_000_000, 4_999_999), 4_000_000, 5_000_000),
    (ByteRange(4_999_999, None), 4_999_999, 5_000_000),
    (ByteRange(None, 1_000_000), 4_000_000, 5_000_000),
    (ByteRange(None, 9_000_000), 0, 5_000_000),
    (ByteRange(4_999_990, 9_000_000), 4_999_990, 5_000_000),
]


@pytest.mark.parametrize(("part", "start", "end"), PARTS)
async def test_a_part_of_a_file_is_read_without_the_rest(
    machine: LinkedMachine, home: Path, part: ByteRange, start: int, end: int
) -> None:
    whole = random.Random(0).randbytes(5_000_000)
    (home / "file").write_bytes(whole)
    async with machine.files.read("file", part) as content:
        assert (content.size_bytes, content.span) == (5_000_000, Span(start, end - start))
        assert b"".join([chunk async for chunk in content.chunks]) == whole[start:end]


async def test_a_part_that_is_not_there_is_refused(machine: LinkedMachine, home: Path) -> None:
    (home / "file").write_bytes(b"12345")
    with pytest.raises(RangeNotSatisfiable):
        async with machine.files.read("file", ByteRange(5, None)):
            pass
    assert await read(machine, "file") == b"12345"


async def test_a_file_of_the_kernel_has_no_parts(machine: LinkedMachine) -> None:
    async with machine.files.read("/proc/self/status", ByteRange(3, 4)) as content:
        assert (content.size_bytes, content.span) == (None, None)
        assert b"".join([chunk async for chunk in content.chunks]).startswith(b"Name:")


async def test_parents_are_made(machine: LinkedMachine, home: Path) -> None:
    await machine.files.write("a/b/c", pieces(b"x"))
    assert (home / "a/b/c").read_bytes() == b"x"
    assert stat.S_IMODE((home / "a/b").stat().st_mode) == 0o755


async def test_an_existing_file_keeps_its_mode(machine: LinkedMachine, home: Path) -> None:
    (home / "tool").write_text("old")
    (home / "tool").chmod(0o750)
    await machine.files.write("tool", pieces(b"new"))
    assert (home / "tool").read_text() == "new"
    assert stat.S_IMODE((home / "tool").stat().st_mode) == 0o750


async def test_a_symbolic_link_is_written_through(machine: LinkedMachine, home: Path) -> None:
    (home / "real").write_text("old")
    (home / "link").symlink_to("real")
    await machine.files.write("link", pieces(b"new"))
    assert (home / "link").is_symlink()
    assert (home / "real").read_text() == "new"


async def test_a_broken_source_leaves_the_old_file(machine: LinkedMachine, home: Path) -> None:
    (home / "file").write_text("old")

    async def breaking() -> AsyncIterator[bytes]:
        yield b"x" * 1_000_000
        raise ConnectionResetError("the client went away")

    with pytest.raises(ConnectionResetError):
        await machine.files.write("file", breaking())
    await eventually(lambda: os.listdir(home) == ["file"])
    assert (home / "file").read_text() == "old"


async def test_a_host_that_vanishes_leaves_the_old_file(running: HostGuest, home: Path) -> None:
    (home / "file").write_text("old")
    async with cuttable_proxy(running.guest_address) as proxy:
        machine = LinkedMachine(running, Link(proxy.address, TOKEN), RealClock())

        async def vanishing() -> AsyncIterator[bytes]:
            yield b"x" * 1_000_000
            await eventually(lambda: len(os.listdir(home)) == 2)
            proxy.cut()
            yield b"y" * 10_000_000

        with pytest.raises(GuestFault):
            await machine.files.write("file", vanishing())
        await machine.detach()
    await eventually(lambda: os.listdir(home) == ["file"])
    assert (home / "file").read_text() == "old"


async def test_more_than_the_disk_holds_is_refused_beforehand(machine: LinkedMachine, home: Path) -> None:
    with pytest.raises(DiskFull):
        await machine.files.write("file", pieces(b"x"), size_hint=1 << 60)
    assert os.listdir(home) == []


async def test_reading_what_is_no_file(machine: LinkedMachine, home: Path) -> None:
    os.mkfifo(home / "fifo")
    (home / "folder").mkdir()
    for path in ("fifo", "folder", "/dev/null", "/"):
        with pytest.raises(NotAFile):
            await read(machine, path)
        if path != "/":
            with pytest.raises(NotAFile):
                await machine.files.write(path, pieces(b"x"))
    (home / "file").touch()
    for path in ("missing", "file/below"):
        with pytest.raises(FileMissing):
            await read(machine, path)


async def test_a_file_in_the_way_of_a_folder_is_a_conflict(machine: LinkedMachine, home: Path) -> None:
    (home / "file").touch()
    with pytest.raises(FileConflict):
        await machine.files.write("file/below", pieces(b"x"))
    for path in ("file", "file/below"):
        with pytest.raises(FileConflict):
            await machine.files.make_directory(path)


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800"])
async def test_impossible_paths_are_refused(machine: LinkedMachine, path: str) -> None:
    for call in (
        machine.files.make_directory(path),
        machine.files.remove(path),
        machine.files.list(path),
        read(machine, path),
        machine.files.write(path, pieces(b"x")),
    ):
        with pytest.raises(InvalidInput):
            await call


async def test_a_listing_is_sorted_and_knows_folders(machine: LinkedMachine, home: Path) -> None:
    (home / "b").write_bytes(b"123")
    (home / "a").mkdir()
    (home / "to-file").symlink_to("b")
    (home / "to-folder").symlink_to("a")
    (home / "broken").symlink_to("nowhere")
    entries = await machine.files.list(".")
    assert [(entry.name, entry.is_directory, entry.size_bytes) for entry in entries] == [
        ("a", True, 0),
        ("b", False, 3),
        ("broken", False, 7),
        ("to-file", False, 3),
        ("to-folder", True, 0),
    ]
    assert entries[0].path == str(home / "a")


async def test_a_large_listing_comes_whole(machine: LinkedMachine, home: Path) -> None:
    for number in range(3000):
        (home / f"{number:04}-{'n' * 150}").touch()
    entries = await machine.files.list(str(home))
    assert len(entries) == 3000


async def test_names_of_odd_bytes_are_shown_readably(machine: LinkedMachine, home: Path) -> None:
    os.mkdir(os.fsencode(home) + b"/odd")
    (home / "odd" / "line\nbreak").touch()
    os.close(os.open(os.fsencode(home) + b"/odd/\xff", os.O_CREAT))
    assert [entry.name for entry in await machine.files.list("odd")] == ["line\nbreak", "\ufffd"]


async def test_listing_what_is_no_folder(machine: LinkedMachine, home: Path) -> None:
    (home / "file").touch()
    with pytest.raises(NotADirectory):
        await machine.files.list("file")
    with pytest.raises(FileMissing):
        await machine.files.list("missing")


async def test_making_a_folder_twice_is_fine(machine: LinkedMachine, home: Path) -> None:
    await machine.files.make_directory("a/b")
    await machine.files.make_directory("a/b")
    assert (home / "a/b").is_dir()


async def test_removing_takes_everything_and_follows_no_link(machine: LinkedMachine, home: Path) -> None:
    (home / "keep").mkdir()
    (home / "keep/file").touch()
    deep = home / "tree"
    for _ in range(60):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (home / "tree/file").touch()
    (home / "tree/link").symlink_to(home / "keep")
    await machine.files.remove("tree")
    assert os.listdir(home) == ["keep"]
    (home / "link").symlink_to(home / "keep")
    await machine.files.remove("link")
    assert os.listdir(home / "keep") == ["file"]


async def test_a_tree_deeper_than_any_path_is_removed(machine: LinkedMachine, home: Path) -> None:
    top = os.open(home, os.O_RDONLY)
    os.mkdir("deep", dir_fd=top)
    current = os.open("deep", os.O_RDONLY, dir_fd=top)
    for _ in range(1500):
        os.mkdir("d" * 20, dir_fd=current)
        below = os.open("d" * 20, os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = below
    os.close(current)
    os.close(top)
    await machine.files.remove("deep")
    assert os.listdir(home) == []


async def test_removing_what_is_missing_is_fine_but_never_the_root(
    machine: LinkedMachine, home: Path
) -> None:
    (home / "file").touch()
    await machine.files.remove("missing")
    await machine.files.remove("file/below")
    for path in ("/", "//", "/tmp/..", "/.", "/usr/../"):
        with pytest.raises(InvalidInput):
            await machine.files.remove(path)


async def test_transfers_in_both_directions_share_the_link(machine: LinkedMachine, home: Path) -> None:
    data = os.urandom(8_000_000)

    async def one(number: int) -> bool:
        await machine.files.write(
            f"file{number}", pieces(*(data[at : at + 65536] for at in range(0, len(data), 65536)))
        )
        return await read(machine, f"file{number}") == data

    assert all(await asyncio.gather(*(one(number) for number in range(6))))
    assert len(os.listdir(home)) == 6
