"""Removing whole folders as root, without ever reaching into something that is mounted there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


class StillMounted(Exception):
    """Something is mounted below a folder that should be removed; the message names it."""


def remove_tree(folder: Path) -> None:
    """Remove a folder with all it holds; one that is not there is no error. Raises StillMounted, OSError.

    A mount left behind by a program that was killed could lead to the host's own devices or files.
    """
    mounted = mounts_below(folder, Path("/proc/self/mountinfo").read_text())
    if mounted:
        raise StillMounted(f"{', '.join(map(str, mounted))} must be unmounted before {folder} can go.")
    if os.path.lexists(folder):
        # Python's own removal recurses, and whoever filled the folder decides how deep.
        done = subprocess.run(
            ["rm", "--recursive", "--force", "--one-file-system", "--", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise OSError(f"{folder} cannot be removed: {done.stderr.strip()[-300:]}")


def mounts_below(folder: Path, mount_information: str) -> list[Path]:
    """The mount points at or below `folder`, given the text of /proc/self/mountinfo."""
    wanted = folder.resolve()
    points = (Path(_unescape(line.split(" ")[4])) for line in mount_information.splitlines())
    return [point for point in points if point.is_relative_to(wanted)]


def _unescape(text: str) -> str:
    """The kernel writes blanks and backslashes as octal numbers."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
