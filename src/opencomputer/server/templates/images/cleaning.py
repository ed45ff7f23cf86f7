"""Taking from an unpacked image what must not be in a layer."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

_OF_OVERLAYS = ("trusted.overlay.", "user.overlay.")


@dataclass(frozen=True)
class Removed:
    """How much was taken out."""

    devices: int
    attributes: int


def clean(root: Path) -> Removed:
    """Remove devices, and attributes by which an overlay would hide or move what is below.

    Deletions have been applied already, so no device means one any more, and machines bring their own. Bits
    for set-user-ID stay: they have their meaning in the machine only, and nobody on the host gets to them.
    """
    devices = 0
    attributes = _strip(os.fspath(root))
    waiting = [os.fspath(root)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in list(entries):
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                    os.unlink(entry.path)
                    devices += 1
                    continue
                attributes += _strip(entry.path)
                if stat.S_ISDIR(mode):
                    waiting.append(entry.path)
    return Removed(devices, attributes)


def _strip(path: str) -> int:
    doomed = [name for name in os.listxattr(path, follow_symlinks=False) if name.startswith(_OF_OVERLAYS)]
    for name in doomed:
        os.removexattr(path, name, follow_symlinks=False)
    return len(doomed)
