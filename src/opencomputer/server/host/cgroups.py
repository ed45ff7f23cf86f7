"""Control groups, version 1 and 2, behind one small interface.

One group per machine: limits, usage, freezing, and a way to end every process of the machine whatever it
did to escape its parent. Version 1 is several trees with a group in each; version 2 is one tree.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_CPU_PERIOD_MICROSECONDS = 100_000
_PARENT_DEADLINE_SECONDS = 10.0
_FREEZE_SECONDS = 10.0
"""A process that waits for the disk is only frozen when that is over."""
_FREEZE_TRY_SECONDS = 0.5
NO_LIMIT = "max"
_V1_CONTROLLERS = ("freezer", "memory", "cpu", "cpuacct", "pids")
_V2_CONTROLLERS = ("cpu", "memory", "pids")

JOIN_SCRIPT = 'while [ "$1" != -- ]; do echo 0 > "$1" || exit 125; shift; done; shift; exec "$@"'
"""Writing 0 moves the writer itself, so everything it starts begins its life inside the group.

The shell only exists because a thread of a larger process cannot move alone on version 2.
"""


class CgroupsUnavailable(Exception):
    """The host has no usable control groups."""


class GroupStuck(Exception):
    """Processes of a group did not end although they were killed."""


@dataclass(frozen=True)
class GroupLimits:
    """`cpu_weight` counts as on version 2: from 1 to 10000, and 100 is usual."""

    memory_bytes: int
    cpu_percent: int
    pids: int
    cpu_weight: int = 100


@dataclass(frozen=True)
class GroupUsage:
    memory_bytes: int
    cpu_seconds: float
    pids: int


class Group(Protocol):
    """One group. Its methods are a few file operations each and fast enough for an event loop."""

    @property
    def folders(self) -> Sequence[Path]: ...

    def create(self, limits: GroupLimits) -> None: ...

    def set_limits(self, limits: GroupLimits) -> None: ...

    def cpu_limit(self) -> str:
        """The limit of processor time, as `set_cpu_limit` takes it."""
        ...

    def set_cpu_limit(self, limit: str) -> None:
        """NO_LIMIT, or what `cpu_limit` gave."""
        ...

    def join_argv(self) -> list[str]:
        """What to put before a command so that it runs inside the group from its first instruction."""
        ...

    def freeze(self) -> None:
        """Stop all processes; returns when the kernel says that all are stopped.

        Raises GroupStuck when that does not happen in time; then all of them run.
        """
        ...

    def thaw(self) -> None: ...

    def processes(self) -> list[int]: ...

    def usage(self) -> GroupUsage: ...

    def out_of_memory(self) -> bool:
        """Whether the kernel killed a process of the group because its memory limit was reached."""
        ...


@dataclass(frozen=True)
class Layout:
    """Where the trees are. `unified` is None on version 1, `trees` is empty on version 2."""

    trees: tuple[tuple[str, Path], ...]
    unified: Path | None


def parse_layout(mount_table: str) -> Layout:
    """Decide from the text of /proc/self/mounts. Version 1 wins where it has every controller."""
    trees: dict[str, Path] = {}
    unified: Path | None = None
    for line in mount_table.splitlines():
        _, target, kind, options, *_ = line.split(" ")
        if kind == "cgroup2":
            unified = Path(target)
        elif kind == "cgroup":
            trees.update((name, Path(target)) for name in options.split(",") if name in _V1_CONTROLLERS)
    if all(name in trees for name in _V1_CONTROLLERS):
        return Layout(tuple((name, trees[name]) for name in _V1_CONTROLLERS), None)
    if unified is not None:
        return Layout((), unified)
    raise CgroupsUnavailable(
        "Neither a complete version 1 nor a version 2 tree of control groups is mounted."
    )


class Groups:
    """The groups of one node: a parent folder named after the node, one group below it per machine."""

    def __init__(self, layout: Layout, parent: str) -> None:
        self._layout = layout
        self._parent = parent

    @classmethod
    def of_this_host(cls, parent: str) -> Groups:
        return cls(parse_layout(Path("/proc/self/mounts").read_text()), parent)

    def group(self, name: str) -> Group:
        if self._layout.unified is not None:
            return UnifiedGroup(self._layout.unified, self._parent, name)
        return SplitGroup({tree: root / self._parent / name for tree, root in self._layout.trees})

    def names(self) -> set[str]:
        """Every group that exists, in whichever tree, half-made ones included."""
        found: set[str] = set()
        for parent in self._parents():
            with contextlib.suppress(FileNotFoundError):
                found.update(entry.name for entry in os.scandir(parent) if entry.is_dir())
        return found

    def remove_parent(self) -> None:
        """Remove the node's own folders if no machine is left in them. Blocks.

        A group that was just removed lives on in the kernel for a moment, and its parent cannot go before.
        """
        if self.names():
            return
        for parent in self._parents():
            with contextlib.suppress(GroupStuck):
                _poll_until(
                    lambda f=parent: _remove_folder(f),
                    deadline_seconds=_PARENT_DEADLINE_SECONDS,
                    what="removing",
                )

    def _parents(self) -> Iterator[Path]:
        if self._layout.unified is not None:
            yield self._layout.unified / self._parent
        for _, root in self._layout.trees:
            yield root / self._parent


class SplitGroup:
    """A group on version 1: one folder in each controller's tree."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self._folders = folders

    @property
    def folders(self) -> Sequence[Path]:
        return tuple(self._folders.values())

    def create(self, limits: GroupLimits) -> None:
        for folder in self._folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        self.set_limits(limits)

    def set_limits(self, limits: GroupLimits) -> None:
        _write(self._folders["memory"] / "memory.limit_in_bytes", limits.memory_bytes)
        _write(self._folders["cpu"] / "cpu.cfs_period_us", _CPU_PERIOD_MICROSECONDS)
        _write(self._folders["cpu"] / "cpu.cfs_quota_us", _cpu_quota(limits.cpu_percent))
        _write(self._folders["cpu"] / "cpu.shares", _cpu_shares(limits.cpu_weight))
        _write(self._folders["pids"] / "pids.max", limits.pids)

    def cpu_limit(self) -> str:
        quota = (self._folders["cpu"] / "cpu.cfs_quota_us").read_text().strip()
        return NO_LIMIT if quota == "-1" else quota

    def set_cpu_limit(self, limit: str) -> None:
        _write(self._folders["cpu"] / "cpu.cfs_quota_us", "-1" if limit == NO_LIMIT else limit)

    def join_argv(self) -> list[str]:
        # `tasks`, not `cgroup.procs`: moving the writing thread alone needs no lock of the whole host.
        return ["/bin/sh", "-c", JOIN_SCRIPT, "sh", *(str(f / "tasks") for f in self.folders), "--"]

    def freeze(self) -> None:
        end = time.monotonic() + _FREEZE_SECONDS
        while True:
            try:
                self._try_to_freeze()
                return
            except GroupStuck:
                # Processes that start others, or are traced, can keep this version's freezer from ever
                # getting done (Documentation/admin-guide/cgroup-v1/freezer-subsystem.rst). Beginning anew
                # gets it out of that.
                self.thaw()
                if time.monotonic() > end:
                    raise

    def _try_to_freeze(self) -> None:
        state = self._folders["freezer"] / "freezer.state"
        _write(state, "FROZEN")
        _poll_until(
            lambda: state.read_text().strip() == "FROZEN",
            deadline_seconds=_FREEZE_TRY_SECONDS,
            what="freezing",
        )

    def thaw(self) -> None:
        _write(self._folders["freezer"] / "freezer.state", "THAWED")

    def processes(self) -> list[int]:
        return _read_processes(self.folders)

    def usage(self) -> GroupUsage:
        memory = self._folders["memory"]
        used = int((memory / "memory.usage_in_bytes").read_text())
        cache = _read_table(memory / "memory.stat").get("total_inactive_file", 0)
        nanoseconds = int((self._folders["cpuacct"] / "cpuacct.usage").read_text())
        pids = int((self._folders["pids"] / "pids.current").read_text())
        return GroupUsage(max(0, used - cache), nanoseconds / 1e9, pids)

    def out_of_memory(self) -> bool:
        return _read_table(self._folders["memory"] / "memory.oom_control").get("oom_kill", 0) > 0


class UnifiedGroup:
    """A group on version 2."""

    def __init__(self, root: Path, parent: str, name: str) -> None:
        self._root = root
        self._parent = root / parent
        self._folder = self._parent / name

    @property
    def folders(self) -> Sequence[Path]:
        return (self._folder,)

    def create(self, limits: GroupLimits) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        switches = " ".join(f"+{name}" for name in _V2_CONTROLLERS)
        for ancestor in (self._root, self._parent):
            _write(ancestor / "cgroup.subtree_control", switches)
        self.set_limits(limits)

    def set_limits(self, limits: GroupLimits) -> None:
        _write(self._folder / "memory.max", limits.memory_bytes)
        _write(self._folder / "cpu.max", f"{_cpu_quota(limits.cpu_percent)} {_CPU_PERIOD_MICROSECONDS}")
        _write(self._folder / "cpu.weight", limits.cpu_weight)
        _write(self._folder / "pids.max", limits.pids)

    def cpu_limit(self) -> str:
        quota, _, _ = (self._folder / "cpu.max").read_text().strip().partition(" ")
        return quota

    def set_cpu_limit(self, limit: str) -> None:
        _write(self._folder / "cpu.max", limit)

    def join_argv(self) -> list[str]:
        return ["/bin/sh", "-c", JOIN_SCRIPT, "sh", str(self._folder / "cgroup.procs"), "--"]

    def freeze(self) -> None:
        _write(self._folder / "cgroup.freeze", 1)
        events = self._folder / "cgroup.events"
        try:
            _poll_until(
                lambda: _read_table(events).get("frozen") == 1,
                deadline_seconds=_FREEZE_SECONDS,
                what="freezing",
            )
        except GroupStuck:
            self.thaw()
            raise

    def thaw(self) -> None:
        _write(self._folder / "cgroup.freeze", 0)

    def processes(self) -> list[int]:
        return _read_processes(self.folders)

    def usage(self) -> GroupUsage:
        used = int((self._folder / "memory.current").read_text())
        cache = _read_table(self._folder / "memory.stat").get("inactive_file", 0)
        microseconds = _read_table(self._folder / "cpu.stat").get("usage_usec", 0)
        pids = int((self._folder / "pids.current").read_text())
        return GroupUsage(max(0, used - cache), microseconds / 1e6, pids)

    def out_of_memory(self) -> bool:
        return _read_table(self._folder / "memory.events").get("oom_kill", 0) > 0


def remove_group(group: Group, *, deadline_seconds: float) -> None:
    """End every process of a group, frozen ones too, and remove it. Idempotent; blocks.

    Raises GroupStuck when processes are still there at the deadline.
    """
    _poll_until(lambda: kill_processes(group), deadline_seconds=deadline_seconds, what="killing")
    for folder in group.folders:
        _poll_until(lambda f=folder: _remove_folder(f), deadline_seconds=deadline_seconds, what="removing")


def kill_processes(group: Group) -> bool:
    """Kill every process of a group, frozen ones too, once; True when there was none."""
    processes = group.processes()
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # A frozen process of version 1 dies only when it runs again.
    with contextlib.suppress(FileNotFoundError):
        group.thaw()
    return not processes


def _remove_folder(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:  # EBUSY: the kernel has not let go of the last process yet
        return False
    return True


def _poll_until(done: Callable[[], bool], *, deadline_seconds: float, what: str) -> None:
    end = time.monotonic() + deadline_seconds
    pause = 0.0002
    while not done():
        if time.monotonic() > end:
            raise GroupStuck(f"{what} a control group took longer than {deadline_seconds} s")
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


def _cpu_quota(percent: int) -> int:
    return max(1000, percent * _CPU_PERIOD_MICROSECONDS // 100)


def _cpu_shares(weight: int) -> int:
    """The kernel's own rule between the versions: the usual 100 is 1024 shares."""
    return max(2, weight * 1024 // 100)


def _write(file: Path, value: int | str) -> None:
    """Raises FileNotFoundError where the group is gone, also if it goes this moment."""
    try:
        file.write_text(str(value))
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file)) from error


def _read_processes(folders: Sequence[Path]) -> list[int]:
    found: set[int] = set()
    for folder in folders:
        with contextlib.suppress(FileNotFoundError, OSError):
            found.update(int(line) for line in (folder / "cgroup.procs").read_text().split())
    return sorted(found)


def _read_table(file: Path) -> dict[str, int]:
    """Files of lines "name number"."""
    pairs = (line.split() for line in file.read_text().splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
