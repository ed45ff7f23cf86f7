"""What an overlay mount of some layers would show, read from the layers themselves.

The rules are the kernel's (Documentation/filesystems/overlayfs.rst): a device 0/0 deletes the name below it,
a folder with `opaque` hides what is below it, a folder with `redirect` continues below under another name,
given for its parent folder or, with a leading slash, from the top. Folders merge; everything else hides.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

OPAQUE = "trusted.overlay.opaque"
REDIRECT = "trusted.overlay.redirect"
_ORIGIN = "trusted.overlay.origin"
_NO_ATTRIBUTE = (errno.ENODATA, errno.EOPNOTSUPP)


@dataclass(frozen=True)
class Part:
    """Something in one layer. `layer` counts from the bottom."""

    layer: int
    path: bytes


@dataclass(frozen=True)
class File:
    """Anything but a folder, as one layer has it."""

    part: Part


@dataclass(frozen=True)
class Folder:
    """A folder, merged of `parts`, topmost first.

    `below` is where it continues under the lowest layer, from the top of whatever is there, without a leading
    slash; None: nothing shows through.
    """

    parts: tuple[Part, ...]
    below: bytes | None


@dataclass(frozen=True)
class Deleted:
    """The layers delete what may be below them."""


Found = File | Folder | Deleted | None
"""None: no layer says anything about the name."""


class Stack:
    """Layers, bottom first. Whatever they lie on is not looked at."""

    def __init__(self, layers: Sequence[Path]) -> None:
        self._roots = tuple(Part(number, os.fsencode(layer)) for number, layer in enumerate(layers))

    def top(self) -> Folder:
        return Folder(tuple(reversed(self._roots)), b"")

    def look_up(self, folder: Folder, name: bytes) -> Found:
        """Raises OSError, as when a name is longer than the host's system calls take."""
        search = _Search(name)
        parts, below = list(folder.parts), folder.below
        found: list[Part] = []
        from_top = False
        while parts and not search.stopped:
            part = parts.pop(0)
            path = search.in_layer(part.path)
            if path is None:
                continue
            found.append(Part(part.layer, path))
            if search.from_top and not from_top:
                # The rest of the way leads from the top of each lower layer, and of what is below them.
                parts, below, from_top = list(reversed(self._roots[: part.layer])), b"", True
        if not found:
            return Deleted() if search.stopped else None
        if not search.is_folder:
            return File(found[0])
        return Folder(tuple(found), _continued(search, below))


def _continued(search: _Search, below: bytes | None) -> bytes | None:
    if search.stopped or below is None:
        return None
    return search.name[1:] if search.from_top else os.path.join(below, search.name)


class _Search:
    """One name on its way down the layers. Redirections change the name for the layers further down."""

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.stopped = False
        self.is_folder = False

    @property
    def from_top(self) -> bool:
        return self.name.startswith(b"/")

    def in_layer(self, folder: bytes) -> bytes | None:
        """Where the name leads in one layer, beginning in `folder`."""
        if not self.from_top:
            return self._element(folder, self.name, b"", b"")
        current: bytes | None = folder
        elements = self.name[1:].split(b"/")
        for number, element in enumerate(elements):
            if current is None:
                return None
            rest = b"".join(b"/" + each for each in elements[number + 1 :])
            # The part before it may have been redirected by an element before.
            before = self.name[: len(self.name) - len(element) - len(rest)]
            current = self._element(current, element, before, rest)
        return current

    def _element(self, folder: bytes, name: bytes, before: bytes, rest: bytes) -> bytes | None:
        path = os.path.join(folder, name)
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return None
        if is_deletion(status):
            self.stopped = True
            return None
        if not stat.S_ISDIR(status.st_mode):
            self.stopped = True
            return None if self.is_folder or rest else path
        if not rest:
            self.is_folder = True
        if attribute(path, OPAQUE) == b"y":
            self.stopped = True
            return path
        self._redirect(attribute(path, REDIRECT), before, rest)
        return path

    def _redirect(self, to: bytes | None, before: bytes, rest: bytes) -> None:
        if not to:
            return
        elements = (to[1:] if to.startswith(b"/") else to).split(b"/")
        if any(element in (b"", b".", b"..") for element in elements):
            raise OSError(errno.EIO, "a layer's folder is redirected to what is no path within layers")
        if to.startswith(b"/"):
            self.stopped = False  # an opaque folder on the way here ends nothing for what moved into it
            self.name = to + rest
        else:
            self.name = before + to + rest


def names(folder: Folder) -> set[bytes]:
    """All names the layers have something to say about, deletions included."""
    return {name for part in folder.parts for name in os.listdir(part.path)}


def is_deletion(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def expect_deletions(folder: bytes) -> None:
    """Have the kernel look for deletions in a folder that nothing below merges with.

    It lists such a folder as it is, devices 0/0 included, unless it was copied from a lower layer once: that
    is what an empty `origin` says.
    """
    if attribute(folder, _ORIGIN) is None:
        os.setxattr(folder, _ORIGIN, b"")


def attribute(path: bytes, name: str) -> bytes | None:
    try:
        return os.getxattr(path, name, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_ATTRIBUTE:
            return None
        raise
