"""Which machines are running from a template, as far as this host's own processes show it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path


def machines_using(roots: Iterable[Path], proc: Path = Path("/proc")) -> int:
    """How many mount namespaces have one of these folders below an overlay. Others' processes need root."""
    wanted = {str(root.resolve()) for root in roots}
    seen: set[str] = set()
    using = 0
    for process in proc.iterdir():
        if not process.name.isdecimal():
            continue
        try:
            namespace = os.readlink(process / "ns/mnt")
            if namespace in seen:
                continue
            table = (process / "mountinfo").read_text(errors="surrogateescape")
        except OSError:
            continue  # it has ended, or is not ours to look at
        seen.add(namespace)
        using += bool(wanted.intersection(lower_folders(table)))
    return using


def lower_folders(mount_information: str) -> Sequence[str]:
    """The folders below all overlays, given the text of a /proc/PID/mountinfo.

    An overlay puts a backslash before colons and commas, and the kernel writes that one as an octal number.
    """
    found = re.findall(r"[ ,]lowerdir\+?=(\S*?)(?=(?<!\\134),[a-z_]+\+?[=,]|\s|$)", mount_information)
    texts = (text.replace("\\134", "\\").replace("\\040", " ") for text in found)
    return [re.sub(r"\\(.)", r"\1", folder) for text in texts for folder in re.split(r"(?<!\\):", text)]
