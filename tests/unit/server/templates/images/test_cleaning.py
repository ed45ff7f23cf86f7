"""What an overlay or a host would misunderstand is taken out of an image; the rest stays as it is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from opencomputer.server.templates.images.cleaning import Removed, clean
from tests.support.image_tools import needs_root

pytestmark = needs_root


def test_devices_go_and_everything_else_stays(tmp_path: Path) -> None:
    """Set-user-ID bits, pipes and links, however deep."""
    below = tmp_path / "a/b"
    below.mkdir(parents=True)
    os.mknod(below / "disk", 0o600 | stat.S_IFBLK, os.makedev(8, 0))
    os.mknod(tmp_path / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    os.mknod(tmp_path / "whiteout", stat.S_IFCHR, os.makedev(0, 0))
    os.mkfifo(below / "pipe")
    (below / "su").touch()
    (below / "su").chmod(0o4755)
    (below / "link").symlink_to("/dev")
    assert clean(tmp_path).devices == 3
    assert sorted(path.name for path in below.iterdir()) == ["link", "pipe", "su"]
    assert (below / "su").stat().st_mode & 0o4000


def test_attributes_of_overlays_go(tmp_path: Path) -> None:
    """They would hide or move what is below the layer; others mean something to programs."""
    for path in (tmp_path, tmp_path / "folder"):
        path.mkdir(exist_ok=True)
        os.setxattr(path, "trusted.overlay.opaque", b"y")
        os.setxattr(path, "trusted.overlay.redirect", b"/etc")
    os.setxattr(tmp_path / "folder", "user.mine", b"1")
    assert clean(tmp_path) == Removed(0, 4)
    assert os.listxattr(tmp_path) == []
    assert os.listxattr(tmp_path / "folder") == ["user.mine"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    """What they lead to is not the image's."""
    (tmp_path / "host").mkdir()
    os.mknod(tmp_path / "host/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    (tmp_path / "root").mkdir()
    (tmp_path / "root/dev").symlink_to(tmp_path / "host")
    assert clean(tmp_path / "root") == Removed(0, 0)
    assert (tmp_path / "host/null").exists()
