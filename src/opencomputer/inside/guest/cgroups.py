"""Process trees by control group: exact, however a process tries to get away.

gVisor has control groups of its own inside a machine (version 1). A session's group holds everything it
started; we enter the group ourselves for the moment of the start, so that not even the first fork escapes.
The number of processes is bounded elsewhere: old builds ask the group's limit at one fork in seven only.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import contextmanager

from .loop import Loop, log
from .syscalls import mount
from .trees import Tree, Trees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator

_REMOVALS_AT_ONCE = 8
_PRIVATE = "/run/oc/private"
_MOUNT = f"{_PRIVATE}/cgroup"
_WORKLOAD = "workload"


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
        self._outside = os.open(f"{_MOUNT}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        self._leftovers: deque[str] = deque()

    def new(self, session_id: str) -> Tree:
        folder = f"{self._workload}/{session_id}"
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            log(f"no control group for session {session_id}: {error}")
            return super().new(session_id)
        return CgroupTree(self.loop, session_id, folder, self)

    def of_process(self, pid: int) -> Tree:
        folder = group_in(_read(f"/proc/{pid}/cgroup"))
        if not folder.startswith(f"/{_WORKLOAD}/"):
            return super().of_process(pid)
        return CgroupTree(self.loop, folder.rpartition("/")[2], f"{_MOUNT}{folder}", self)

    def leave(self) -> None:
        os.pwrite(self._outside, str(os.getpid()).encode(), 0)

    def remove(self, folder: str) -> None:
        """Remove a group once it is empty: now, or when later ones are removed."""
        self._leftovers.append(folder)
        for _ in range(min(len(self._leftovers), _REMOVALS_AT_ONCE)):
            oldest = self._leftovers.popleft()
            if not _removed(oldest):
                self._leftovers.append(oldest)


class CgroupTree(Tree):
    def __init__(self, loop: Loop, session_id: str, folder: str, trees: CgroupTrees) -> None:
        super().__init__(loop, session_id)
        self._folder = folder
        self._trees = trees
        self._growth: int | None = None

    @contextmanager
    def joining(self) -> Generator[None]:
        write(f"{self._folder}/cgroup.procs", os.getpid())
        try:
            yield
        finally:
            self._trees.leave()

    def rooted_at(self, pid: int) -> None:
        super().rooted_at(pid)
        # Kept open for the moment of the kill, in which each system call may take very long.
        self._growth = os.open(f"{self._folder}/pids.max", os.O_WRONLY | os.O_CLOEXEC)

    def pids(self) -> set[int]:
        try:
            with open(f"{self._folder}/cgroup.procs", encoding="ascii") as file:
                return {int(line) for line in file.read().split()} - {os.getpid()}
        except OSError:
            return set()

    def _stop_growth(self) -> None:
        if self._growth is None:
            return
        try:
            os.pwrite(self._growth, b"0", 0)
        except OSError as error:
            log(f"cannot stop a session's forks: {error}")

    def dispose(self) -> None:
        growth, self._growth = self._growth, None
        if growth is not None:
            os.close(growth)
        self._trees.remove(self._folder)


def group_in(text: str) -> str:
    """The group of processes in a /proc/PID/cgroup; empty when there is none."""
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "pids" in controllers.split(","):
            return path
    return ""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 16)
    except OSError:
        return ""


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
