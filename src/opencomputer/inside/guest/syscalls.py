"""System calls that the standard library has no name for, and credentials of one thread alone.

The C library's own setuid functions change every thread of the process. Ours change the calling thread:
that is how one thread starts a program as another user while PID 1 stays root.
"""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .users import User

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_MS_BIND = 4096
_PR_SET_CHILD_SUBREAPER = 36
_MOST_VARIABLES = 10_000
_NUMBERS = {
    "x86_64": {"setgroups": 116, "setresuid": 117, "setresgid": 119},
    "aarch64": {"setgroups": 159, "setresuid": 147, "setresgid": 149},
}
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def mount(kind: str, target: str, options: str) -> None:
    """Mount a file system that has no device."""
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    _check(_libc.mount(kind.encode(), target.encode(), kind.encode(), flags, options.encode()))


def bind(source: str, target: str) -> None:
    """Show `source` at `target`."""
    _check(_libc.mount(source.encode(), target.encode(), None, _MS_BIND, None))


def adopt_orphans() -> None:
    """Become the parent of every orphan below us, as PID 1 is by nature."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def take_from_environment(name: str) -> str:
    """The value of an environment variable, which is then nowhere to be read any more.

    Removing a variable leaves its text in our memory, where /proc/1/environ shows it: under old gVisor
    builds to every user.
    """
    value = os.environ.get(name, "")
    entries = ctypes.POINTER(ctypes.c_void_p).in_dll(_libc, "environ")
    prefix = f"{name}=".encode()
    for index in range(_MOST_VARIABLES):
        address = entries[index]
        if not address:
            break
        text = ctypes.string_at(address)
        if text.startswith(prefix):
            ctypes.memset(address, 0, len(text))
            break
    os.environ.pop(name, None)
    return value


class ThreadCredentials:
    """Who the calling thread is. Made once; used by one thread."""

    def __init__(self) -> None:
        numbers = _NUMBERS[os.uname().machine]
        self._setgroups = numbers["setgroups"]
        self._setresuid = numbers["setresuid"]
        self._setresgid = numbers["setresgid"]

    def become(self, user: User) -> None:
        """Be `user` until `return_to_root`, which the saved user id keeps possible.

        An exec ends that possibility: the program has no way back.
        """
        try:
            self._set_groups(user.groups)
            _check(_libc.syscall(self._setresgid, user.gid, user.gid, 0))
            _check(_libc.syscall(self._setresuid, user.uid, user.uid, 0))
        except OSError:
            self.return_to_root()
            raise

    def return_to_root(self) -> None:
        _check(_libc.syscall(self._setresuid, 0, 0, 0))
        _check(_libc.syscall(self._setresgid, 0, 0, 0))
        self._set_groups(())

    def _set_groups(self, groups: tuple[int, ...]) -> None:
        array = (ctypes.c_uint32 * len(groups))(*groups)
        _check(_libc.syscall(self._setgroups, len(groups), array))
