"""A tree is removed whole, or not touched when something is mounted in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opencomputer.server.host import trees
from opencomputer.server.host.trees import StillMounted, mounts_below, remove_tree

MOUNTS = """22 1 254:0 / / rw,relatime - ext4 /dev/root rw
40 22 0:5 / /srv/half/rootfs/dev rw - devtmpfs dev rw
41 22 0:6 / /srv/half\\040built rw - tmpfs tmpfs rw
"""


def test_mounts_are_found_below_a_folder_only() -> None:
    """A name that merely begins alike is another folder; blanks are read as blanks."""
    assert mounts_below(Path("/srv/half"), MOUNTS) == [Path("/srv/half/rootfs/dev")]
    assert mounts_below(Path("/srv/half built"), MOUNTS) == [Path("/srv/half built")]
    assert mounts_below(Path("/srv/other"), MOUNTS) == []


def test_a_tree_goes_with_all_it_holds(tmp_path: Path) -> None:
    """A tree that is gone already is no error."""
    (tmp_path / "tree/below").mkdir(parents=True)
    remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()
    remove_tree(tmp_path / "tree")


def test_nothing_is_removed_while_something_is_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was mounted there stays untouched."""
    (tmp_path / "tree").mkdir()
    monkeypatch.setattr(trees, "mounts_below", lambda folder, text: [tmp_path / "tree/dev"])  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - a stand-in
    with pytest.raises(StillMounted, match="tree/dev"):
        remove_tree(tmp_path / "tree")
    assert (tmp_path / "tree").exists()


def test_a_tree_may_be_deeper_than_python_recurses(tmp_path: Path) -> None:
    """How deep folders are nested is decided by whoever filled them."""
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    remove_tree(tmp_path / "d")
    assert list(tmp_path.iterdir()) == []
