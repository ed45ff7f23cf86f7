"""What the host's memory holds of files, and whether they can be used without it."""

from __future__ import annotations

import os
from pathlib import Path

_SAMPLES = 16
_LARGE_BYTES = 32 << 20


def takes_direct_io(folder: Path) -> bool:
    """Whether files in this folder can be read and written past the host's memory."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC, 0o600))
    except OSError:
        return False
    return True


def better_read_directly(file: Path) -> bool:
    """Whether a file is better read past the host's memory: it holds nothing of it, and reading once does
    not make up for filling it. What is small may be read often. False when there is no such file."""
    try:
        large = file.stat().st_size > _LARGE_BYTES
        return large and takes_direct_io(file.parent) and not is_cached(file)
    except OSError:
        return False


def is_cached(file: Path) -> bool:
    """Whether the host's memory seems to hold the whole of a file, by looking at a few places.

    True also where the file system cannot tell.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        offsets = {size * step // _SAMPLES for step in range(_SAMPLES)}
        for offset in offsets:
            os.preadv(descriptor, [bytearray(1)], offset, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return True
