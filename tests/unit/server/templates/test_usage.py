"""Which machines run from a template is read from what their processes have mounted."""

from __future__ import annotations

from pathlib import Path

from opencomputer.server.templates.usage import lower_folders, machines_using

TABLE = (
    "22 1 254:0 / / rw,relatime - ext4 /dev/root rw\n"
    "159 152 0:39 / / rw,relatime - overlay overlay rw,lowerdir={},upperdir=/u,workdir=/w,fsync=volatile\n"
)


def process(proc: Path, pid: int, namespace: str, table: str) -> None:
    folder = proc / str(pid)
    (folder / "ns").mkdir(parents=True)
    (folder / "ns/mnt").symlink_to(namespace)
    (folder / "mountinfo").write_text(table)


def test_all_layers_of_an_overlay_are_seen() -> None:
    """Also in the newer way of writing them, and with characters that the overlay escapes."""
    assert lower_folders(TABLE.format("/c:/b:/a")) == ["/c", "/b", "/a"]
    assert lower_folders("1 2 / / rw - overlay x rw,lowerdir+=/c,lowerdir+=/a,upperdir=/u") == [
        "/c",
        "/a",
    ]
    assert lower_folders(TABLE.format(r"/a\134:b\134,c:/d\040e")) == ["/a:b,c", "/d e"]
    assert lower_folders("22 1 254:0 / / rw,relatime - ext4 /dev/root rw") == []


def test_a_machine_counts_once(tmp_path: Path) -> None:
    """All its processes share its mounts; others have other templates."""
    used, other = tmp_path / "used", tmp_path / "other"
    proc = tmp_path / "proc"
    for pid, namespace, folder in ((1, "a", used), (2, "a", used), (3, "b", used), (4, "c", other)):
        process(proc, pid, namespace, TABLE.format(f"/layer:{folder}"))
    (proc / "self").mkdir()
    (proc / "5").mkdir()
    assert machines_using([used], proc) == 2
    assert machines_using([tmp_path / "us"], proc) == 0
