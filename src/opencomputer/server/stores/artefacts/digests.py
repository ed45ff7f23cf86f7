"""Digests of large files, made by all cores.

A file's digest is the SHA-256 of the SHA-256s of its pieces, so that pieces can be read side by side, and a
hole in a sparse file costs nothing.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from opencomputer.server.host.page_cache import better_read_directly

PIECE_BYTES = 8 << 20
_READ_BYTES = 1 << 20
_MOST_THREADS = 4


def digest_file(path: Path) -> str:
    """Raises OSError. Blocks."""
    direct = os.O_DIRECT if better_read_directly(path) else 0
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | direct), "rb") as file:
        descriptor, size = file.fileno(), os.fstat(file.fileno()).st_size
        with ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_THREADS)) as threads:
            starts = range(0, size, PIECE_BYTES)
            pieces = threads.map(partial(_piece, descriptor, size), starts)
            return hashlib.sha256(b"".join(pieces)).hexdigest()


def _piece(descriptor: int, size: int, start: int) -> bytes:
    end = min(start + PIECE_BYTES, size)
    if _next_data(descriptor, start) >= end:
        return _zeros(end - start)
    digest = hashlib.sha256()
    for block in _blocks(descriptor, start, end):
        digest.update(block)
    return digest.digest()


def _blocks(descriptor: int, start: int, end: int) -> Iterator[memoryview]:
    # Reading past the host's memory asks for whole pages, in the file and of the buffer.
    with mmap.mmap(-1, _READ_BYTES) as buffer, memoryview(buffer) as view:
        while start < end:
            read = min(os.preadv(descriptor, [view], start), end - start)
            if read == 0:
                return  # it became shorter meanwhile: the digest will not be the one expected
            with view[:read] as block:
                yield block
            start += read


def _next_data(descriptor: int, start: int) -> int:
    """Where the next byte is that may not be zero. Seeking is safe: reading uses no shared position."""
    try:
        return os.lseek(descriptor, start, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return 1 << 62
        raise


_ZEROS_OF_A_PIECE = hashlib.sha256(bytes(PIECE_BYTES)).digest()


def _zeros(length: int) -> bytes:
    return _ZEROS_OF_A_PIECE if length == PIECE_BYTES else hashlib.sha256(bytes(length)).digest()
