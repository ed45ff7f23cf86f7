"""Process trees by control group: exact, however a process tries to get away, and bounded in number.

gVisor has control groups of its own inside a machine (version 1). A session's group holds everything it
started; we enter the group ourselves for the moment of the start, so that not even the first fork escapes.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import contextmanager

from .loop import Loop, log
from .memory import parse_meminfo
from .syscalls import mount
from .trees import Tree, Trees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator

_REMOVALS_AT_ONCE = 8
_PRIVATE = "/run/oc/private"
_MOUNT = f"{_PRIVATE}/cgroup"
_WORKLOAD = "workload"
_MOST_PROCESSES = 4096
_LEAST_PROCESSES = 128
_BYTES_PER_PROCESS = 1024 * 1024
"""gVisor needs about 600 KiB for a small process. A fork bomb must end at a limit, not at the machine's
memory, which would end the machine."""


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
        # Old builds count a process twice on its way in, so that nearly twice the limit is let in; and they
        # do not count groups in groups, so that the limit is one of each session.
        self._most_in_session = most_processes(_read("/proc/meminfo")) // 2
        self._outside = os.open(f"{_MOUNT}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        self._leftovers: deque[str] = deque()

    def new(self, session_id: str) -> Tree:
        folder = f"{self._workload}/{session_id}"
        try:
            os.makedirs(folder, exist_ok=True)
            write(f"{folder}/pids.max", self._most_in_session)
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


def most_processes(meminfo: str) -> int:
    """How many processes a machine with this /proc/meminfo may have."""
    total, _ = parse_meminfo(meminfo)
    return max(_LEAST_PROCESSES, min(_MOST_PROCESSES, total // _BYTES_PER_PROCESS))


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
