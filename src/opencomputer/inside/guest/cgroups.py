"""Process trees by control group: exact, however a process tries to get away, and bounded in number.

gVisor has control groups of its own inside a machine (version 1). A session's group holds everything it
started; we enter the group ourselves for the moment of the start, so that not even the first fork escapes.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from .loop import Loop, log
from .syscalls import mount
from .trees import Tree, Trees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator

_PRIVATE = "/run/oc/private"
_MOUNT = f"{_PRIVATE}/cgroup"
_WORKLOAD = "workload"
MOST_PROCESSES = 4096
MOST_SESSION_PROCESSES = 3584
"""Less than all: while one session is full, another can still start what puts an end to it."""


class CgroupTrees(Trees):
    """Raises OSError where the machine has no control groups."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop, whole_machine=True)
        os.makedirs(_PRIVATE, mode=0o700, exist_ok=True)
        os.chmod(_PRIVATE, 0o700)
        os.makedirs(_MOUNT, exist_ok=True)
        mount("cgroup", _MOUNT, "pids")
        self._workload = f"{_MOUNT}/{_WORKLOAD}"
        os.makedirs(self._workload, exist_ok=True)
        write(f"{self._workload}/pids.max", MOST_PROCESSES)
        self._outside = os.open(f"{_MOUNT}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        self._leftovers: list[str] = []

    def new(self, session_id: str) -> Tree:
        folder = f"{self._workload}/{session_id}"
        try:
            os.makedirs(folder, exist_ok=True)
            write(f"{folder}/pids.max", MOST_SESSION_PROCESSES)
        except OSError as error:
            log(f"no control group for session {session_id}: {error}")
            return super().new(session_id)
        return CgroupTree(self.loop, session_id, folder, self)

    def leave(self) -> None:
        os.pwrite(self._outside, str(os.getpid()).encode(), 0)

    def remove(self, folder: str) -> None:
        """Remove a group that is empty, now or when a later one is removed."""
        self._leftovers.append(folder)
        self._leftovers = [each for each in self._leftovers if not _removed(each)]


class CgroupTree(Tree):
    def __init__(self, loop: Loop, session_id: str, folder: str, trees: CgroupTrees) -> None:
        super().__init__(loop, session_id)
        self._folder = folder
        self._trees = trees

    @contextmanager
    def joining(self) -> Generator[None]:
        write(f"{self._folder}/cgroup.procs", os.getpid())
        try:
            yield
        finally:
            self._trees.leave()

    def pids(self) -> set[int]:
        try:
            with open(f"{self._folder}/cgroup.procs", encoding="ascii") as file:
                return {int(line) for line in file.read().split()} - {os.getpid()}
        except OSError:
            return set()

    def kill(self) -> None:
        try:
            write(f"{self._folder}/pids.max", 0)  # nothing is started any more while we kill
        except OSError as error:
            log(f"cannot stop a session's forks: {error}")
        super().kill()

    def dispose(self) -> None:
        self._trees.remove(self._folder)


def write(path: str, value: int) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(str(value))


def _removed(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
