"""Working in the root file system of somebody else's image, as root of the host, without ever leaving it.

Its symbolic links mean places in the image, wherever they seem to point. Nobody changes the tree meanwhile.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from pathlib import Path, PurePosixPath

from opencomputer.server.templates.commands import BuildFailed

_MOST_LINKS = 40
_MOST_BYTES = 4 << 20


class RootedTree:
    """Paths are absolute ones of the image. Methods raise BuildFailed where the image makes no sense."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def locate(self, path: str) -> Path:
        """Where a path of the image is on the host: no part of it is a link. It need not exist."""
        waiting = deque(PurePosixPath("/", path).parts[1:])
        here: list[str] = []
        links = 0
        while waiting:
            part = waiting.popleft()
            if part == "..":
                here = here[:-1]
                continue
            place = self._root.joinpath(*here, part)
            if not place.is_symlink():
                here.append(part)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise BuildFailed(f"The image's {path} is a link that never ends.")
            target = PurePosixPath(os.readlink(place))
            if target.is_absolute():
                here = []
            waiting.extendleft(reversed([each for each in target.parts if each != "/"]))
        return self._root.joinpath(*here)

    def exists(self, path: str) -> bool:
        """Whether anything has this name, a link to nowhere included."""
        return os.path.lexists(self._own(path))

    def is_program(self, path: str) -> bool:
        place = self.locate(path)
        return place.is_file() and bool(place.stat().st_mode & stat.S_IXOTH)

    def is_folder(self, path: str) -> bool:
        return self.locate(path).is_dir()

    def read(self, path: str) -> str:
        """The text of a file; empty if there is none."""
        place = self.locate(path)
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise BuildFailed(f"The image's {path} cannot be read.") from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
                raise BuildFailed(f"The image's {path} is no file of a usual size.")
            content = os.read(descriptor, status.st_size)
        finally:
            os.close(descriptor)
        return content.decode("utf-8", "surrogateescape")

    def write(self, path: str, text: str, *, mode: int = 0o644, group: int = 0) -> None:
        """Make a new file of root's, in place of whatever has its name."""
        place = self._own(path)
        self._make(place.parent, path)
        if place.is_dir() and not place.is_symlink():
            raise BuildFailed(f"The image's {path} is a folder.")
        place.unlink(missing_ok=True)
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
            os.fchown(descriptor, 0, group)
            os.fchmod(descriptor, mode)

    def rewrite(self, path: str, text: str) -> None:
        """As `write`, for whom the file was for before."""
        try:
            status = self.locate(path).stat()
        except OSError:
            self.write(path, text)
        else:
            self.write(path, text, mode=stat.S_IMODE(status.st_mode), group=status.st_gid)

    def make_folder(self, path: str, *, mode: int = 0o755, owner: int = 0) -> bool:
        """Make a folder that is not there, and those above it. Returns whether it was not there."""
        place = self.locate(path)
        if place.is_dir():
            return False
        self._make(place, path)
        os.chown(place, owner, owner)
        place.chmod(mode)
        return True

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link where there is nothing yet."""
        place = self._own(path)
        self._make(place.parent, path)
        place.symlink_to(target)

    def _own(self, path: str) -> Path:
        """The place of the name itself, which may be a link."""
        parent, _, name = path.rpartition("/")
        return self.locate(parent) / name

    def _make(self, folder: Path, path: str) -> None:
        missing: list[Path] = []
        while not os.path.lexists(folder):
            missing.append(folder)
            folder = folder.parent
        if not folder.is_dir():
            raise BuildFailed(f"The image cannot have a {path}: {folder.name} in it is no folder.")
        for each in reversed(missing):
            each.mkdir()
            each.chmod(0o755)
