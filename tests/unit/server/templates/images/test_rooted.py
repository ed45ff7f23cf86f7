"""Whatever links an image has, nothing outside of it is read or written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opencomputer.server.templates.commands import BuildFailed
from opencomputer.server.templates.images.rooted import RootedTree
from tests.support.image_tools import needs_root

pytestmark = needs_root


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "passwd").write_text("the host's")
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def tree(root: Path) -> RootedTree:
    return RootedTree(root)


def untouched(outside: Path) -> bool:
    return {path.name: path.read_text() for path in outside.iterdir()} == {"passwd": "the host's"}


def test_an_absolute_link_means_a_place_in_the_image(tree: RootedTree, root: Path, outside: Path) -> None:
    """For the file itself and for the folders above it."""
    (root / "etc").symlink_to(outside)
    tree.write("/etc/passwd", "the image's")
    assert untouched(outside)
    assert root.joinpath(*outside.parts[1:], "passwd").read_text() == "the image's"
    assert tree.read("/etc/passwd") == "the image's"


@pytest.mark.parametrize("up", ["../outside", "../../../../../../../outside", "a/../../outside"])
def test_no_link_leads_above_the_root(tree: RootedTree, root: Path, outside: Path, up: str) -> None:
    """As in a chroot, the root is its own parent."""
    (root / "etc").symlink_to(up)
    tree.write("/etc/passwd", "the image's")
    tree.make_folder("/etc/below/deeper")
    tree.link("/etc/link", "/x")
    assert untouched(outside)
    assert (root / "outside/below/deeper").is_dir()


def test_writing_replaces_a_link_and_follows_none(tree: RootedTree, root: Path, outside: Path) -> None:
    """Nor a second name of the same file."""
    (root / "a").symlink_to(outside / "passwd")
    os.link(outside / "passwd", root / "b")
    tree.write("/a", "new")
    tree.rewrite("/b", "new")
    assert untouched(outside)
    assert (root / "a").read_text() == (root / "b").read_text() == "new"


def test_reading_follows_links_inside_only(tree: RootedTree, root: Path, outside: Path) -> None:
    """A link to a file of the host is a link to nothing."""
    (root / "a").symlink_to(outside / "passwd")
    (root / "real").write_text("yes")
    (root / "b").symlink_to("/real")
    assert (tree.read("/a"), tree.read("/b"), tree.read("/none")) == ("", "yes", "")


def test_a_link_to_itself_is_an_error(tree: RootedTree, root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(BuildFailed, match="never ends"):
        tree.read("/a/x")


def test_what_is_no_file_is_not_read(tree: RootedTree, root: Path) -> None:
    """Neither waiting for a writer that never comes, nor reading without end."""
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    with (root / "huge").open("wb") as file:
        file.truncate(1 << 40)
    for name in ("pipe", "folder", "huge"):
        with pytest.raises(BuildFailed):
            tree.read(f"/{name}")


def test_a_file_where_a_folder_belongs_is_an_error(tree: RootedTree, root: Path) -> None:
    """And a folder where a file belongs."""
    (root / "etc").write_text("")
    (root / "hosts").mkdir()
    for act in (
        lambda: tree.write("/etc/passwd", ""),
        lambda: tree.make_folder("/etc/x"),
        lambda: tree.write("/hosts", ""),
    ):
        with pytest.raises(BuildFailed):
            act()


def test_rewriting_keeps_whom_a_file_is_for(tree: RootedTree, root: Path) -> None:
    """The passwords of an image stay for their group only."""
    (root / "shadow").write_text("old")
    (root / "shadow").chmod(0o640)
    os.chown(root / "shadow", 0, 42)
    tree.rewrite("/shadow", "new")
    status = (root / "shadow").stat()
    assert (status.st_mode & 0o7777, status.st_gid, (root / "shadow").read_text()) == (0o640, 42, "new")


def test_a_folder_that_is_there_stays_as_it_is(tree: RootedTree, root: Path) -> None:
    """A new one belongs to whom it is for."""
    (root / "there").mkdir(0o700)
    assert not tree.make_folder("/there", owner=1000)
    assert tree.make_folder("/new", owner=1000, mode=0o750)
    assert [(path.stat().st_uid, path.stat().st_mode & 0o777) for path in (root / "there", root / "new")] == [
        (0, 0o700),
        (1000, 0o750),
    ]
