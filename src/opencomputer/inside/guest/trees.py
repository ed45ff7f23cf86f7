"""Whole process trees: everything a session has ever started, however it tried to get away.

Here by descent: children of children, process groups, sessions, and the session's mark in the environment,
which finds those whose parents have died. `cgroups.py` holds the exact way, for kernels that have one.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager

from .loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator

MARK = "OC_SESSION_ID"
SWEEP_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_ROUNDS = 20
_SECONDS_OF_SWEEPING = 0.5
_SECONDS_OF_KILLING = 0.05


class ProcessEntry:
    __slots__ = ("group", "parent", "pid", "session", "stopped")

    def __init__(self, pid: int, parent: int, group: int, session: int, *, stopped: bool = False) -> None:
        self.pid = pid
        self.parent = parent
        self.group = group
        self.session = session
        self.stopped = stopped


def parse_stat(text: str) -> ProcessEntry | None:
    """An entry of /proc/PID/stat. None for a zombie. The name may hold blanks and parentheses."""
    pid, _, rest = text.partition(" ")
    fields = rest.rpartition(")")[2].split()
    if len(fields) < 4 or fields[0] in "ZXx":
        return None
    stopped = fields[0] in "Tt"
    return ProcessEntry(int(pid), int(fields[1]), int(fields[2]), int(fields[3]), stopped=stopped)


def living_processes() -> list[ProcessEntry]:
    """Every process that is not a zombie."""
    entries: list[ProcessEntry] = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            entry = parse_stat(_read(f"/proc/{name}/stat"))
            if entry is not None:
                entries.append(entry)
    return entries


def descendants(entries: list[ProcessEntry], roots: set[int]) -> set[int]:
    """`roots` and everything below them by parent, process group or session."""
    found = set(roots)
    grown = True
    while grown:
        grown = False
        for entry in entries:
            if entry.pid not in found and not found.isdisjoint((entry.parent, entry.group, entry.session)):
                found.add(entry.pid)
                grown = True
    return found


def tell_session_of_size(leader: int) -> None:
    """Tell all of a terminal's session that its size has changed.

    Linux tells the foreground by itself; gVisor builds tell nobody. Who does not care about the signal does
    not notice it.
    """
    for entry in living_processes():
        if entry.session == leader:
            try:
                os.kill(entry.pid, signal.SIGWINCH)
            except (ProcessLookupError, PermissionError):
                continue


def kill_all(pids: set[int]) -> None:
    for pid in pids:
        _kill(pid)


def kill_some(pids: set[int]) -> None:
    """Kill one's whole group in one call, then as many as can be killed in a moment, the youngest first.

    Under a fork bomb each call may take a tenth of a second: who works through a list of a thousand kills
    the dead, while those who were not born yet when it was read become a thousand more.
    """
    youngest_first = sorted(pids, reverse=True)
    _kill_group_of(youngest_first[0])
    enough = time.monotonic() + _SECONDS_OF_KILLING
    for pid in youngest_first:
        _kill(pid)
        if time.monotonic() > enough:
            return


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _kill_group_of(pid: int) -> None:
    """A group has members of one session only, and each of our trees has sessions of its own."""
    try:
        os.killpg(os.getpgid(pid), signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


class Tree:
    """The processes of one session."""

    def __init__(self, loop: Loop, session_id: str) -> None:
        self._loop = loop
        self._mark = f"{MARK}={session_id}".encode()
        self._root: int | None = None

    @contextmanager
    def joining(self) -> Generator[None]:
        """What is started in this context belongs to the tree."""
        yield

    def rooted_at(self, pid: int) -> None:
        self._root = pid

    def pids(self) -> set[int]:
        """Every living process of the tree."""
        ours = {1, os.getpid()}
        entries = [entry for entry in living_processes() if entry.pid not in ours]
        roots = {self._root} if self._root is not None else set[int]()
        found = descendants(entries, roots)
        strays = {entry.pid for entry in entries if entry.pid not in found and self._is_marked(entry.pid)}
        return descendants(entries, found | strays) & {entry.pid for entry in entries}

    def kill(self) -> None:
        """SIGKILL everything in the tree, and what it still starts meanwhile.

        The group first and in one call: under a fork bomb each call of ours may take seconds.
        """
        if self._root is not None:
            try:
                os.killpg(self._root, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        self._stop_growth()
        self._sweep(0)

    def _stop_growth(self) -> None:
        """Let nothing new be started in the tree, where that is possible."""

    def dispose(self) -> None:
        """The session has ended; processes it left behind live on."""

    def _sweep(self, turn: int) -> None:
        enough = time.monotonic() + _SECONDS_OF_SWEEPING
        while time.monotonic() < enough:
            found = self.pids()
            if not found:
                return
            kill_some(found)
        if turn < len(SWEEP_SECONDS):
            self._loop.call_later(SWEEP_SECONDS[turn], lambda: self._sweep(turn + 1))

    def _is_marked(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return self._mark in file.read(1 << 20).split(b"\0")
        except OSError:
            return False


class Trees:
    """Makes the tree of each session and knows whether any user process is left."""

    def __init__(self, loop: Loop, *, whole_machine: bool) -> None:
        self.loop = loop
        self._whole_machine = whole_machine

    def new(self, session_id: str) -> Tree:
        return Tree(self.loop, session_id)

    def of_process(self, pid: int) -> Tree:
        """The tree that a process belongs to. Here the mark in its environment says it, to be inherited."""
        return Tree(self.loop, "")

    def kill_everything(self) -> None:
        """SIGKILL whatever descends from us."""
        for _ in range(_ROUNDS):
            found = self._below_us()
            if not found:
                return
            kill_all(found)

    def count_processes(self) -> int:
        """User processes: in a machine everything but ourselves, elsewhere what descends from us."""
        if self._whole_machine:
            return sum(name.isdecimal() and int(name) != os.getpid() for name in os.listdir("/proc"))
        return len(self._below_us())

    def user_processes(self) -> list[ProcessEntry]:
        """Those that `count_processes` counts, without the dead."""
        ours = os.getpid()
        if self._whole_machine:
            return [entry for entry in living_processes() if entry.pid != ours]
        below = self._below_us()
        return [entry for entry in living_processes() if entry.pid in below]

    def _below_us(self) -> set[int]:
        ours = os.getpid()
        entries = [entry for entry in living_processes() if entry.pid != ours]
        children = {entry.pid for entry in entries if entry.parent == ours}
        return descendants(entries, children) if children else set()


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096)
    except OSError:
        return ""
