"""One layer with the effect of several, over whatever lies below them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from opencomputer.server.host.subprocesses import run
from opencomputer.server.stores.artefacts.overlay import (
    OPAQUE,
    REDIRECT,
    Deleted,
    File,
    Folder,
    Stack,
    expect_deletions,
    names,
)

_OVERLAY = "trusted.overlay."
_COPY_DEADLINE_SECONDS = 600.0


def merge_layers(layers: Sequence[Path], target: Path) -> None:
    """Make `target` of `layers`, bottom first. Files are shared with them by hard links. Blocks; OSError.

    Deletions and opaque folders stay, wherever something could be below them.
    """
    target.mkdir(mode=0o755)
    stack = Stack(layers)
    top = stack.top()
    made = [(top, os.fsencode(target))]
    for folder, path in made:  # it grows meanwhile: each folder comes after its parent
        for name in sorted(names(folder)):
            child = _make(stack, folder, name, os.path.join(path, name))
            if child is not None:
                made.append((child, os.path.join(path, name)))
    for folder, path in reversed(made):
        if folder.parts:
            _copy_attributes(folder.parts[0].path, path)


def _make(stack: Stack, parent: Folder, name: bytes, path: bytes) -> Folder | None:
    found = stack.look_up(parent, name)
    if isinstance(found, Folder):
        os.mkdir(path, 0o700)
        _mark(path, found, name, parent)
        return found
    if isinstance(found, File):
        _link(found.part.path, path)
    elif isinstance(found, Deleted) and parent.below is not None:
        os.mknod(path, stat.S_IFCHR, 0)
        expect_deletions(os.path.dirname(path))
    return None


def _mark(path: bytes, folder: Folder, name: bytes, parent: Folder) -> None:
    """Say of a new folder how it goes on below: as its name would, under another name, or not at all."""
    natural = None if parent.below is None else os.path.join(parent.below, name)
    if folder.below == natural:
        return
    if folder.below is None:
        os.setxattr(path, OPAQUE, b"y")
    elif os.path.dirname(folder.below) == parent.below:
        os.setxattr(path, REDIRECT, os.path.basename(folder.below))
    else:
        os.setxattr(path, REDIRECT, b"/" + folder.below)


def _link(source: bytes, target: bytes) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno != errno.EMLINK:
            raise
        argv = ["cp", "-a", "--", os.fsdecode(source), os.fsdecode(target)]
        done = run(argv, deadline_seconds=_COPY_DEADLINE_SECONDS)
        if done.exit_code != 0:
            raise OSError(errno.EMLINK, done.output.strip()[-300:]) from error


def _copy_attributes(source: bytes, target: bytes) -> None:
    status = os.stat(source)
    os.chown(target, status.st_uid, status.st_gid)
    os.chmod(target, stat.S_IMODE(status.st_mode))
    for name in os.listxattr(source):
        if not name.startswith(_OVERLAY):
            os.setxattr(target, name, os.getxattr(source, name))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
