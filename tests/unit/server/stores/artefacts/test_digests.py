"""Digests of large files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from opencomputer.server.host.page_cache import is_cached, takes_direct_io
from opencomputer.server.stores.artefacts.digests import PIECE_BYTES, digest_file


def expected(content: bytes) -> str:
    pieces = (content[start : start + PIECE_BYTES] for start in range(0, len(content), PIECE_BYTES))
    return hashlib.sha256(b"".join(hashlib.sha256(piece).digest() for piece in pieces)).hexdigest()


@pytest.mark.parametrize("size", [0, 1, 4096, PIECE_BYTES, PIECE_BYTES + 1, (33 << 20) + 4095])
def test_a_digest_depends_on_the_content_and_not_on_how_it_is_read(tmp_path: Path, size: int) -> None:
    file, content = tmp_path / "file", os.urandom(size)
    file.write_bytes(content)
    assert digest_file(file) == expected(content)
    with file.open("rb+") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert digest_file(file) == expected(content)


def test_what_was_read_past_the_hosts_memory_is_not_kept_in_it(tmp_path: Path) -> None:
    if not takes_direct_io(tmp_path):
        pytest.skip("this file system keeps its files in memory")
    file = tmp_path / "file"
    file.write_bytes(os.urandom(40 << 20))
    with file.open("rb+") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    digest_file(file)
    assert not is_cached(file)


def test_holes_count_as_the_zeros_they_are(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with file.open("wb") as stream:
        stream.seek(20 << 20)
        stream.write(b"end")
    assert digest_file(file) == expected(bytes(20 << 20) + b"end")
