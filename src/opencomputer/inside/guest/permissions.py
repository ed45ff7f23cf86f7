"""What a user may do with a path, by the mode bits, without becoming that user."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .users import User

_READ, _WRITE, _SEARCH = 4, 2, 1


def allows(user: User, mode: int, owner: int, group: int, wanted: int) -> bool:
    """Whether these mode bits grant `wanted` (of 4 read, 2 write, 1 search) to `user`."""
    if user.uid == 0:
        return True
    if user.uid == owner:
        granted = mode >> 6
    elif group in user.all_groups:
        granted = mode >> 3
    else:
        granted = mode
    return granted & wanted == wanted


def may_enter(user: User, folder: str) -> bool:
    """Whether `user` may search `folder` and every folder above it."""
    return _may(user, folder, _SEARCH)


def may_write_in(user: User, folder: str) -> bool:
    """Whether `user` may make something in `folder`."""
    return _may(user, folder, _WRITE | _SEARCH)


def _may(user: User, folder: str, wanted: int) -> bool:
    path = os.path.realpath(folder)
    while True:
        try:
            found = os.stat(path)
        except OSError:
            return False
        if not allows(user, found.st_mode, found.st_uid, found.st_gid, wanted):
            return False
        wanted = _SEARCH
        above = os.path.dirname(path)
        if above == path:
            return True
        path = above
