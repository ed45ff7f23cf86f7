"""What the host's memory holds of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opencomputer.server.host.page_cache import is_cached, takes_direct_io


def test_a_file_is_cached_until_its_pages_are_dropped(tmp_path: Path) -> None:
    if not takes_direct_io(tmp_path):
        pytest.skip("this file system keeps its files in memory")
    file = tmp_path / "file"
    file.write_bytes(os.urandom(4 << 20))
    assert is_cached(file)
    with file.open("rb+") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert not is_cached(file)
    assert len(file.read_bytes()) == 4 << 20
    assert is_cached(file)


def test_an_empty_file_is_cached(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert is_cached(tmp_path / "empty")


def test_a_folder_that_is_not_there_takes_nothing(tmp_path: Path) -> None:
    assert not takes_direct_io(tmp_path / "missing")
