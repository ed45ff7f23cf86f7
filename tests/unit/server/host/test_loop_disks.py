"""Disks in sparse files, as far as it can be tried without mounting them (tests/machines does)."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencomputer.server.host.loop_disks import DiskUnavailable, copy_disk, create_disk


def test_an_empty_disk_takes_up_next_to_nothing(tmp_path: Path) -> None:
    create_disk(tmp_path / "disk", 20 << 30)
    status = (tmp_path / "disk").stat()
    assert status.st_size == 20 << 30
    assert status.st_blocks * 512 < 4 << 20


def test_a_disk_is_never_smaller_than_a_file_system_can_be(tmp_path: Path) -> None:
    create_disk(tmp_path / "disk", 1)
    assert (tmp_path / "disk").stat().st_size == 32 << 20


def test_what_exists_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "disk").write_text("precious")
    with pytest.raises(FileExistsError):
        create_disk(tmp_path / "disk", 1 << 30)
    assert (tmp_path / "disk").read_text() == "precious"


def test_a_host_without_the_tool_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DiskUnavailable, match=r"mkfs\.ext4"):
        create_disk(tmp_path / "disk", 1 << 30)


@pytest.mark.parametrize("pieces", [[], [0], [5], [0, 5, 11], [11]])
def test_a_copy_has_the_same_bytes_and_the_same_holes(tmp_path: Path, pieces: list[int]) -> None:
    mebibyte = 1 << 20
    with (tmp_path / "disk").open("wb") as disk:
        disk.truncate(12 * mebibyte)
        for piece in pieces:
            disk.seek(piece * mebibyte)
            disk.write(bytes([piece + 1]) * mebibyte)
    copy_disk(tmp_path / "disk", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "disk").read_bytes()
    assert (tmp_path / "copy").stat().st_blocks * 512 <= len(pieces) * mebibyte + 65536


def test_a_copy_of_an_empty_disk_is_the_same_disk(tmp_path: Path) -> None:
    create_disk(tmp_path / "disk", 64 << 20)
    copy_disk(tmp_path / "disk", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "disk").read_bytes()
