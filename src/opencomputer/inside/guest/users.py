"""Users and groups of the machine, read from /etc/passwd and /etc/group by ourselves.

The C library's lookups may load modules of the image, which PID 1 must not run.
"""

from __future__ import annotations

import os

from .watched_file import WatchedFile

SANDBOX = "sandbox"


class User:
    __slots__ = ("gid", "groups", "home", "name", "shell", "uid")

    def __init__(
        self, name: str, uid: int, gid: int, home: str, shell: str, groups: tuple[int, ...] = ()
    ) -> None:
        self.name = name
        self.uid = uid
        self.gid = gid
        self.home = home
        self.shell = shell
        self.groups = groups

    @property
    def all_groups(self) -> frozenset[int]:
        return frozenset((self.gid, *self.groups))


ROOT = User("root", 0, 0, "/root", "/bin/sh")
_FALLBACKS = {
    "root": ROOT,
    SANDBOX: User(SANDBOX, 1000, 1000, "/home/sandbox", "/bin/sh"),
}


class UserDatabase:
    """Sees changes of the files at once: users may add users."""

    def __init__(self, root: str = "/") -> None:
        etc = root.rstrip("/") + "/etc"
        self._passwd = WatchedFile(f"{etc}/passwd")
        self._group = WatchedFile(f"{etc}/group")

    def find(self, name: str) -> User | None:
        """The user of that name. `root` and `sandbox` exist even where the image lacks them."""
        for fields in _lines(self._passwd, 7):
            if fields[0] == name:
                user = self._parse(fields)
                if user is not None:
                    return user
        return _FALLBACKS.get(name)

    def find_by_uid(self, uid: int) -> User | None:
        for fields in _lines(self._passwd, 7):
            user = self._parse(fields)
            if user is not None and user.uid == uid:
                return user
        return next((user for user in _FALLBACKS.values() if user.uid == uid), None)

    def find_group(self, name: str) -> int | None:
        for fields in _lines(self._group, 4):
            if fields[0] == name and fields[2].isdecimal():
                return int(fields[2])
        return None

    def _parse(self, fields: list[str]) -> User | None:
        name, _, uid, gid, _, home, shell = fields[:7]
        if not uid.isdecimal() or not gid.isdecimal():
            return None
        return User(name, int(uid), int(gid), home or "/", shell or "/bin/sh", self._groups_of(name))

    def _groups_of(self, name: str) -> tuple[int, ...]:
        return tuple(
            int(fields[2])
            for fields in _lines(self._group, 4)
            if fields[2].isdecimal() and name in fields[3].split(",")
        )


class OneUser(UserDatabase):
    """Where there is no machine: whatever the name, it is the user who runs us."""

    def __init__(self, home: str) -> None:
        super().__init__()
        self._home = home

    def find(self, name: str) -> User | None:
        return User(name, os.geteuid(), os.getegid(), self._home, "/bin/sh")


def _lines(file: WatchedFile, columns: int) -> list[list[str]]:
    lines = (line.split(":") for line in file.text().splitlines() if not line.startswith("#"))
    return [fields for fields in lines if len(fields) >= columns]
