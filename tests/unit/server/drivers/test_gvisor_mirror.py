"""A copy made while programs write is exact in the end, whatever they did and whenever."""

from __future__ import annotations

import os
import random
import shutil
import stat
import threading
from pathlib import Path

import pytest

from opencomputer.server.drivers.gvisor.mirror import CopyFailed, Mirror


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "a/b/c").mkdir(parents=True)
    for number in range(40):
        (folder / f"a/b/{number}").write_text(f"content {number}")
    (folder / "a/link").symlink_to("b/1")
    os.link(folder / "a/b/2", folder / "a/second-name")
    return folder


@pytest.fixture
def mirror(tmp_path: Path, source: Path) -> Mirror:
    (tmp_path / "target").mkdir()
    return Mirror(source, tmp_path / "target", tmp_path / "clock")


def test_a_copy_in_one_part_is_exact(source: Path, mirror: Mirror) -> None:
    mirror.complete()
    assert_same(source)


def test_a_copy_in_two_parts_is_exact_when_nothing_happens_between(source: Path, mirror: Mirror) -> None:
    mirror.copy_ahead()
    mirror.complete()
    assert_same(source)


def test_what_happens_between_the_parts_is_in_the_copy(source: Path, mirror: Mirror) -> None:
    mirror.copy_ahead()
    (source / "a/b/1").write_text("CONTENT 1")  # of the same size
    (source / "a/b/3").unlink()
    shutil.rmtree(source / "a/b/c")
    (source / "a/b/c").write_text("a file now")
    (source / "a/b/4").unlink()
    (source / "a/b/4").mkdir(mode=0o711)
    (source / "a/new/deep").mkdir(parents=True)
    (source / "a/new/deep/file").write_text("new")
    os.chmod(source / "a/b/5", 0o4711)
    os.truncate(source / "a/b/6", 1 << 20)
    (source / "a/link").unlink()
    (source / "a/link").symlink_to("elsewhere")
    os.mkfifo(source / "a/fifo")
    os.chmod(source, 0o750)
    mirror.complete()
    assert_same(source)


def test_a_folder_that_was_renamed_is_copied_whole(source: Path, mirror: Mirror) -> None:
    """Nothing inside it has changed, and its name was not there before."""
    mirror.copy_ahead()
    (source / "a/b").rename(source / "moved")
    mirror.complete()
    assert_same(source)


def test_folders_that_changed_places_are_told_apart_by_what_they_are(source: Path, tmp_path: Path) -> None:
    """Package managers give the files of all versions the same times, and sizes are often the same."""
    for name in ("x", "y"):
        (source / name).mkdir()
        (source / name / "package.json").write_text(name)
        os.utime(source / name / "package.json", (499162500, 499162500))
    (tmp_path / "target").mkdir()
    mirror = Mirror(source, tmp_path / "target", tmp_path / "clock")
    mirror.copy_ahead()
    (source / "x").rename(source / "z")
    (source / "y").rename(source / "x")
    (source / "z").rename(source / "y")
    mirror.complete()
    assert (tmp_path / "target/x/package.json").read_text() == "y"
    assert_same(source)


def test_a_file_whose_time_was_set_back_is_copied_again(source: Path, mirror: Mirror) -> None:
    facts = (source / "a/b/7").stat()
    mirror.copy_ahead()
    (source / "a/b/7").write_text("other 7890"[: facts.st_size])
    os.utime(source / "a/b/7", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    mirror.complete()
    assert_same(source)


def test_names_of_one_file_stay_names_of_one_file(source: Path, mirror: Mirror, tmp_path: Path) -> None:
    mirror.copy_ahead()
    (source / "a/second-name").unlink()  # which is a change of the file's other name, too
    (source / "a/second-name").write_text("its own")
    os.link(source / "a/b/8", source / "a/b/c/eight")
    mirror.complete()
    assert_same(source)
    target = tmp_path / "target"
    assert (target / "a/b/2").read_text() == "content 2"
    assert (target / "a/b/8").samefile(target / "a/b/c/eight")


def test_a_copy_made_under_a_storm_of_changes_is_exact(source: Path, mirror: Mirror) -> None:
    for seed in range(5):
        ended = threading.Event()
        storm = threading.Thread(target=_change_wildly, args=(source, seed, ended))
        storm.start()
        try:
            mirror.copy_ahead()
        finally:
            ended.set()
            storm.join()
        mirror.complete()
        assert_same(source)


def test_a_clock_that_is_set_back_is_noticed(
    source: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times of changes say nothing then, and all is copied again."""
    mirror.copy_ahead()
    target = source.parent / "target"
    (target / "a/b/9").write_text("content X")
    facts = (source / "a/b/9").stat()
    os.utime(target / "a/b/9", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    os.chown(target / "a/b/9", facts.st_uid, facts.st_gid)
    monkeypatch.setattr("time.monotonic", lambda: 1e9)
    mirror.complete()
    assert_same(source)


def test_what_cannot_be_copied_is_said(source: Path, mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "target").rmdir()
    (tmp_path / "target").write_text("in the way")
    with pytest.raises(CopyFailed):
        mirror.complete()


def _change_wildly(folder: Path, seed: int, ended: threading.Event) -> None:
    chance = random.Random(seed)
    names = [f"{seed}-{number}" for number in range(12)]
    while not ended.is_set():
        one, other = folder / chance.choice(names), folder / "a" / chance.choice(names)
        try:
            match chance.randrange(6):
                case 0:
                    one.write_text(str(chance.random()))
                case 1:
                    one.rename(other)
                case 2:
                    other.unlink()
                case 3:
                    one.mkdir()
                    (one / "inside").write_text(str(chance.random()))
                case 4:
                    other.rename(one)
                case _:
                    os.link(other, one)
        except OSError:
            continue


def assert_same(source: Path) -> None:
    assert described(source.parent / "target") == described(source)


def described(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything about a tree that a copy must have, names of one file included."""
    first_names: dict[int, str] = {}
    found: dict[str, tuple[object, ...]] = {}
    for path in [root, *sorted(root.rglob("*"))]:
        facts = path.lstat()
        name = str(path.relative_to(root))
        content: object = None
        if stat.S_ISREG(facts.st_mode):
            content = path.read_bytes()
        elif stat.S_ISLNK(facts.st_mode):
            content = os.readlink(path)
        same = first_names.setdefault(facts.st_ino, name)
        found[name] = (facts.st_mode, facts.st_uid, facts.st_gid, facts.st_mtime_ns, content, same)
    return found
