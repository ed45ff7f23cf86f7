"""Which processes have a file open, found through /proc."""

from __future__ import annotations

import os
import time

from . import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .requests import Request

_MOST_SECONDS = 0.5
_MOST_NAMED = 10
_DELETED = " (deleted)"


def list_holders(request: Request) -> None:
    """Answer with the processes that have `path` open, deleted or not; those found in a moment."""
    path = protocol.text(request.fields, "path")
    enough = time.monotonic() + _MOST_SECONDS
    found: list[object] = []
    for name in os.listdir("/proc"):
        if time.monotonic() > enough or len(found) >= _MOST_NAMED:
            break
        if name.isdecimal() and int(name) != os.getpid() and _holds(name, path):
            found.append({"pid": int(name), "name": _name(name)})
    request.reply({"processes": found})


def _holds(pid: str, path: str) -> bool:
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    for number in numbers:
        try:
            if os.readlink(f"/proc/{pid}/fd/{number}").removesuffix(_DELETED) == path:
                return True
        except OSError:
            continue
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            return any(line.rstrip("\n").removesuffix(_DELETED).endswith(f" {path}") for line in file)
    except OSError:
        return False


def _name(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read(64).strip()
    except OSError:
        return "?"
