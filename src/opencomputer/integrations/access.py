"""Files of a sandbox with the rights of its user. The file API itself acts as root."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from opencomputer.integrations.programs import as_user
from opencomputer.sdk.errors import NotFoundError, ValidationError

if TYPE_CHECKING:
    from collections.abc import Generator

    from opencomputer.sdk.sandbox import Sandbox

Right = Literal["-r", "-w"]

# What is there must permit it itself. For what is not, the nearest folder that is there decides.
_ASK = """
if [ -e "$2" ]; then
    if [ "$1" = -w ] && [ -d "$2" ]; then exit 0; fi
    test "$1" "$2"
    exit
fi
path=$2
while parent=$(dirname -- "$path"); [ ! -e "$parent" ]; do path=$parent; done
test -x "$parent" && { [ "$1" = -r ] || test -w "$parent"; }
"""
_MISSING = "file_not_found"
_NOT_A_FILE = "not_a_file"


async def require(sandbox: Sandbox, right: Right, path: str, user: str | None = None) -> None:
    """Raise PermissionError unless the sandbox's user, or the one named, may read or write there."""
    asked = ["/bin/sh", "-c", _ASK, "sh", right, path]
    if user is not None:
        asked = [*as_user(user), *asked]
    if (await sandbox.exec.run(f"exec {shlex.join(asked)}")).exit_code != 0:
        raise PermissionError(f"{path}: permission denied")


@contextmanager
def file_errors(path: str) -> Generator[None]:
    """Raise Python's own errors for files that are missing, or are folders."""
    try:
        yield
    except NotFoundError as error:
        if error.code != _MISSING:
            raise
        raise FileNotFoundError(f"{path}: no such file") from error
    except ValidationError as error:
        if error.code != _NOT_A_FILE:
            raise
        raise IsADirectoryError(f"{path} is a directory, or no regular file") from error
