"""What goes wrong while storing, in our own words."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager

from obstore.exceptions import BaseError

from opencomputer.server.domain.errors import HostDiskFull

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_WORDS = (
    "No space left on device",
    "Disk quota exceeded",
    "os error 28)",
    "os error 122)",
    "Wrote only ",
)
"""The last is all that tar says when the disk becomes full in the middle of a block."""


class ArchiveFailed(Exception):
    """The archiving program failed; the message is what it said."""


@contextmanager
def translated() -> Generator[None]:
    """Raise HostDiskFull where a file system, the archiver or the blob store says that it has no room."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise HostDiskFull from error
        raise
    except (BaseError, ArchiveFailed) as error:
        if says_full(str(error)):
            raise HostDiskFull from error
        raise


def says_full(text: str) -> bool:
    """Whether a message of tar in the C locale, or of obstore, is about a full disk. They give only text."""
    return any(words in text for words in _FULL_WORDS)
