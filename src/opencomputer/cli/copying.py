"""What `oc cp` decides about names. No I/O here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath

from opencomputer.cli.failures import CommandError

_IN_A_SANDBOX = re.compile(r"(?P<sandbox>sb-[a-z0-9-]+):(?P<path>.*)", re.DOTALL)
_HOME = "."


@dataclass(frozen=True)
class Place:
    """One side of a copy. `sandbox` is "" for this machine."""

    sandbox: str
    path: str


@dataclass(frozen=True)
class Copied:
    """What a copy moved."""

    files: int
    size_bytes: int


def place(argument: str) -> Place:
    """Read `PATH` or `SANDBOX:PATH`; a sandbox without a path is its home directory."""
    if match := _IN_A_SANDBOX.fullmatch(argument):
        return Place(match["sandbox"], match["path"] or _HOME)
    if not argument:
        raise CommandError("an empty path names nothing")
    return Place("", argument)


def into_folder(target: str, name: str) -> str:
    """Where something called `name` goes inside the folder `target` of a sandbox."""
    if not name or name in (".", ".."):
        raise CommandError("the source has no name to be copied under; name the target in full")
    return str(PurePosixPath(target) / name)


def local_path(folder: PurePath, name: str) -> PurePath:
    """Where an entry that a sandbox calls `name` goes below a local folder.

    The sandbox is not trusted: a name that leads anywhere else is refused.
    """
    joined = folder / name
    if name in ("", ".", "..") or "\0" in name or (joined.name, joined.parent) != (name, folder):
        raise CommandError(f"the sandbox sent a file name that is none: {name!r}")
    return joined
