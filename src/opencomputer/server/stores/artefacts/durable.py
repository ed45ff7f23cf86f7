"""Making sure that what was written stays, and that every gap in between can be tried."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

Step = Callable[[str], None]
"""Called with its name before each step that could be the last one of this process. Tests raise in it."""


def no_interruption(_step: str) -> None:
    return


def sync(path: Path) -> None:
    """Return when a file's bytes, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
