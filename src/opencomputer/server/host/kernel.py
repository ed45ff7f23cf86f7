"""The few system calls that Python 3.11 does not offer, each with the constants it needs.

Everything here acts on the *calling thread* and raises OSError when the kernel refuses.
"""

from __future__ import annotations

import ctypes
import os
from enum import IntFlag
from pathlib import Path


class Unshare(IntFlag):
    """Parts of its surroundings a thread can get for itself."""

    MOUNTS = 0x00020000
    NETWORK = 0x40000000


class Mount(IntFlag):
    """Flags of mount(2)."""

    BIND = 4096
    RECURSIVE = 16384
    SLAVE = 1 << 19
    READ_ONLY = 1
    REMOUNT = 32
    NO_SUID = 2
    NO_DEVICES = 4
    NO_ACCESS_TIMES = 1024


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = [
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
]
_libc.unshare.argtypes = [ctypes.c_int]
_libc.setns.argtypes = [ctypes.c_int, ctypes.c_int]


def unshare(parts: Unshare) -> None:
    """Give the calling thread its own copy of `parts`. It cannot be undone: let the thread end."""
    if _libc.unshare(int(parts)) != 0:
        raise _last_error("unshare")


def enter_namespace(descriptor: int) -> None:
    """Move the calling thread into the namespace behind an open descriptor."""
    if _libc.setns(descriptor, 0) != 0:
        raise _last_error("setns")


def mount(
    source: str, target: Path, *, kind: str | None = None, flags: Mount | None = None, options: str = ""
) -> None:
    """Mount `source` at `target`, seen by the mount namespace of the calling thread."""
    outcome = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() if kind else None,
        int(flags or 0),
        options.encode() if options else None,
    )
    if outcome != 0:
        raise _last_error(f"mount {target}")


def _last_error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
