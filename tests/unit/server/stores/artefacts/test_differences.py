"""The list of what changed, for what a person would ask."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from opencomputer.server.domain.layers import Change, ChangeKind
from opencomputer.server.stores.artefacts import differences as module
from opencomputer.server.stores.artefacts.differences import differences

_MIB = 1 << 20


class Layers:
    """Layers written by hand."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def add(self, **files: str) -> Path:
        self._count += 1
        layer = self._folder / f"layer{self._count}"
        layer.mkdir()
        for name, content in files.items():
            (layer / name).write_text(content)
        return layer


@pytest.fixture
def layers(tmp_path: Path) -> Layers:
    return Layers(tmp_path)


def short(changes: Sequence[Change]) -> Sequence[tuple[str, str, int]]:
    return [(change.path, str(change.kind), change.size_bytes) for change in changes]


def test_added_changed_and_deleted_files_are_told_apart(layers: Layers) -> None:
    base, after = layers.add(kept="1", changed="2", deleted="3"), layers.add(changed="22", new="4444")
    os.mknod(after / "deleted", stat.S_IFCHR, 0)
    assert short(differences([base], [], [after])) == [
        ("/changed", "changed", 2),
        ("/deleted", "deleted", 0),
        ("/new", "added", 4),
    ]


def test_a_file_written_with_the_same_content_did_not_change(layers: Layers) -> None:
    base, after = layers.add(file="same"), layers.add(file="same")
    os.utime(after / "file", (5, 5))
    assert differences([base], [], [after]) == []


def test_a_file_of_equal_size_and_other_content_changed(layers: Layers) -> None:
    base, after = layers.add(file="aaaa"), layers.add(file="bbbb")
    for layer in (base, after):
        os.utime(layer / "file", (5, 5))
    assert short(differences([base], [], [after])) == [("/file", "changed", 4)]


@pytest.mark.parametrize(("seconds", "expected"), [(5, []), (6, [("/file", "changed", 2 * _MIB)])])
def test_of_large_files_the_time_decides(layers: Layers, seconds: int, expected: object) -> None:
    """Reading them would take as long as they are large."""
    base, after = layers.add(), layers.add()
    for layer, moment in ((base, 5), (after, seconds)):
        (layer / "file").write_bytes(bytes(2 * _MIB))
        os.utime(layer / "file", (moment, moment))
    assert short(differences([base], [], [after])) == expected


def test_a_change_of_mode_is_a_change(layers: Layers) -> None:
    base, after = layers.add(file="a"), layers.add(file="a")
    (after / "file").chmod(0o755)
    assert short(differences([base], [], [after])) == [("/file", "changed", 1)]


def test_what_was_made_and_removed_again_is_not_listed(layers: Layers) -> None:
    base, first, second = layers.add(), layers.add(temporary="a"), layers.add()
    os.mknod(second / "temporary", stat.S_IFCHR, 0)
    assert differences([base], [], [first, second]) == []


def test_a_deleted_folder_is_listed_with_what_was_in_it(layers: Layers) -> None:
    base, after = layers.add(), layers.add()
    (base / "folder" / "inner").mkdir(parents=True)
    (base / "folder" / "inner" / "file").write_text("a")
    os.mknod(after / "folder", stat.S_IFCHR, 0)
    assert differences([base], [], [after]) == [
        Change("/folder", ChangeKind.DELETED, 0, is_directory=True),
        Change("/folder/inner", ChangeKind.DELETED, 0, is_directory=True),
        Change("/folder/inner/file", ChangeKind.DELETED, 0),
    ]


def test_a_folder_made_anew_deletes_what_it_does_not_have(layers: Layers) -> None:
    base, after = layers.add(), layers.add()
    for layer, names in ((base, ("old", "both")), (after, ("both", "new"))):
        (layer / "folder").mkdir()
        for name in names:
            (layer / "folder" / name).write_text("a")
    os.setxattr(after / "folder", "trusted.overlay.opaque", b"y")
    assert short(differences([base], [], [after])) == [
        ("/folder/new", "added", 1),
        ("/folder/old", "deleted", 0),
    ]


def test_a_file_in_the_place_of_a_folder_deletes_what_was_below(layers: Layers) -> None:
    base, after = layers.add(), layers.add(thing="file now")
    (base / "thing").mkdir()
    (base / "thing" / "inner").write_text("a")
    assert short(differences([base], [], [after])) == [
        ("/thing", "changed", 8),
        ("/thing/inner", "deleted", 0),
    ]


def test_a_name_that_is_no_text_is_spelled_out(layers: Layers) -> None:
    """An answer in JSON cannot hold it otherwise."""
    base, after = layers.add(), layers.add()
    with open(os.path.join(os.fsencode(after), b"\xff"), "wb"):
        pass
    assert [change.path for change in differences([base], [], [after])] == ["/\\xff"]


def test_layers_that_both_have_are_not_read(layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the answer takes no longer however large the template is."""
    base, first, second = layers.add(), layers.add(a="1"), layers.add(b="2")
    for number in range(20):
        (base / f"folder{number}").mkdir()
    listed: list[bytes] = []
    listdir = os.listdir

    def listing(path: bytes) -> list[bytes]:
        listed.append(path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", listing)
    assert short(differences([base], [first], [first, second])) == [("/b", "added", 1)]
    assert listed == [os.fsencode(second)]


def test_a_list_has_an_end(layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CHANGES", 3)
    assert len(differences([layers.add()], [], [layers.add(a="", b="", c="", d="")])) == 3


def test_folders_deeper_than_the_host_can_name_are_left_out(layers: Layers) -> None:
    """A sandbox can make them, one step at a time."""
    base, after = layers.add(), layers.add(file="a")
    here = os.open(after, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("x" * 200, dir_fd=here)
        deeper = os.open("x" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    found = differences([base], [], [after])
    assert found[0].path == "/file"
    assert 10 < len(found) < 31
