"""Making a folder a layer that overlays show as it is meant, and archives describe in full."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from opencomputer.server.stores.artefacts.overlay import expect_deletions, is_deletion


def settle(folder: Path) -> None:
    """Change what would not survive, or not work, without changing what the layer means. Idempotent; blocks.

    The folder's own time tells only when it was copied. Sockets cannot be archived, and nobody listens on
    them any more: each becomes a deletion, so that it still hides what is below.
    """
    os.utime(folder, (0, 0))
    waiting = [os.fsencode(folder)]
    while waiting:
        current = waiting.pop()
        special: list[os.DirEntry[bytes]] = []
        with os.scandir(current) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                    special.append(entry)
        if special:
            _settle_special(current, special)


def _settle_special(parent: bytes, entries: list[os.DirEntry[bytes]]) -> None:
    times = os.stat(parent)
    for entry in entries:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISSOCK(status.st_mode):
            os.unlink(entry.path)
            os.mknod(entry.path, stat.S_IFCHR, 0)
            os.utime(entry.path, ns=(status.st_mtime_ns, status.st_mtime_ns))
            status = os.lstat(entry.path)
        if is_deletion(status):
            expect_deletions(parent)
    os.utime(parent, ns=(times.st_atime_ns, times.st_mtime_ns))
