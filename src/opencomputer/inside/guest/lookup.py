"""Finding a program as a shell would."""

from __future__ import annotations

import os
import stat

from .environment import PATH
from .permissions import allows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .users import User

_EXECUTE = 1
_ANY_EXECUTE = 0o111


class NotExecutable(Exception):
    """There is such a file and it cannot be executed."""


def find_program(name: str, environment: Mapping[str, str], cwd: str, user: User) -> str:
    """The path to execute for `name`. Raises FileNotFoundError or NotExecutable."""
    if "/" in name:
        candidates = [os.path.join(cwd, name)]
    else:
        folders = environment.get("PATH", PATH).split(":")
        candidates = [os.path.join(cwd, folder, name) for folder in folders]
    seen = False
    for candidate in candidates:
        try:
            found = os.stat(candidate)
        except OSError:
            continue
        if _executable(found, user):
            return candidate
        seen = True
    if seen:
        raise NotExecutable(name)
    raise FileNotFoundError(name)


def _executable(found: os.stat_result, user: User) -> bool:
    if not stat.S_ISREG(found.st_mode):
        return False
    if user.uid == 0:
        return bool(found.st_mode & _ANY_EXECUTE)
    return allows(user, found.st_mode, found.st_uid, found.st_gid, _EXECUTE)
