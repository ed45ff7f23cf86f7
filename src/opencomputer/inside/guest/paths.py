"""From a requested path to a place in the machine, and from a system error to a refusal."""

from __future__ import annotations

import errno
import os

from . import protocol
from .permissions import may_write_in
from .requests import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .users import User

FILE_MODE = 0o644
_FOLDER_MODE = 0o755

_CODES = {
    errno.ENOENT: protocol.FILE_MISSING,
    errno.ENOTDIR: protocol.FILE_MISSING,
    errno.EISDIR: protocol.NOT_A_FILE,
    errno.ENXIO: protocol.NOT_A_FILE,
    errno.EACCES: protocol.FILE_FORBIDDEN,
    errno.EPERM: protocol.FILE_FORBIDDEN,
    errno.EROFS: protocol.FILE_FORBIDDEN,
    errno.EBUSY: protocol.FILE_FORBIDDEN,
    errno.ETXTBSY: protocol.FILE_FORBIDDEN,
    errno.EEXIST: protocol.FILE_CONFLICT,
    errno.ENOSPC: protocol.DISK_FULL,
    errno.EDQUOT: protocol.DISK_FULL,
    errno.EFBIG: protocol.DISK_FULL,
    errno.ENAMETOOLONG: protocol.INVALID,
    errno.ELOOP: protocol.INVALID,
    errno.EINVAL: protocol.INVALID,
}


def refusal(error: Exception, path: str) -> Refusal:
    """What the host is told when working on `path` failed with `error`."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, OSError):
        code = _CODES.get(error.errno or 0, protocol.FAILED)
        return Refusal(code, f"{path}: {error.strerror or error}")
    if isinstance(error, ValueError):
        return Refusal(protocol.INVALID, f"{path!r} is not a valid path")
    return Refusal(protocol.FAILED, f"{path}: {error}")


def absolute(path: str, home: str) -> str:
    """The absolute path. Raises Refusal for one that no file can have."""
    if not path or "\0" in path:
        raise Refusal(protocol.INVALID, "A path must not be empty or contain NUL.")
    return os.path.join(home, path)


def final_name(path: str) -> str:
    """The path with all but its last part resolved, so that a last symbolic link means itself."""
    stripped = path.rstrip("/")
    above, name = os.path.split(stripped)
    if name in ("", ".", ".."):
        return os.path.realpath(stripped or "/")
    return os.path.join(os.path.realpath(above), name)


class Ownership:
    """To whom new files and folders belong.

    To the sandbox user where that user may write, else to the owner of the folder they are made in.
    `can_give` is off where we are no root and everything is ours anyway.
    """

    def __init__(self, user: User, *, can_give: bool) -> None:
        self._user = user
        self._can_give = can_give

    def for_new_in(self, folder: str) -> tuple[int, int]:
        """User and group of something new in `folder`."""
        if may_write_in(self._user, folder):
            return self._user.uid, self._user.gid
        found = os.stat(folder)
        return found.st_uid, found.st_gid

    def give(self, descriptor: int, owner: tuple[int, int], mode: int) -> None:
        if self._can_give:
            os.fchown(descriptor, *owner)
        os.fchmod(descriptor, mode)

    def make_folders(self, folder: str) -> None:
        """Make `folder` and what is missing above it. Raises Refusal when a file is in the way."""
        missing: list[str] = []
        while not os.path.isdir(folder):
            if os.path.lexists(folder):
                raise Refusal(protocol.FILE_CONFLICT, f"{folder} is not a directory")
            missing.append(folder)
            folder = os.path.dirname(folder)
        for path in reversed(missing):
            owner = self.for_new_in(os.path.dirname(path))
            try:
                os.mkdir(path, _FOLDER_MODE)
            except FileExistsError:
                continue  # somebody else was faster
            if self._can_give:
                os.chown(path, *owner, follow_symlinks=False)
            os.chmod(path, _FOLDER_MODE)
