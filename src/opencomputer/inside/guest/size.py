"""How large the machine is, as the host said last, and what programs are shown of it.

The kernel of a machine goes on saying what it was started with. Where that is not true any more, files of
ours cover the kernel's own, and processes learn from their affinity how many processors there are for them.
"""

from __future__ import annotations

import os
import threading
import time

from . import protocol
from .loop import log
from .memory import kernel_memory, most_processes, read_meminfo
from .syscalls import bind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .requests import Request
    from .spawning import Spawner

_MEMINFO = "/proc/meminfo"
_ONLINE = "/sys/devices/system/cpu/online"
_POSSIBLE = "/sys/devices/system/cpu/possible"
_KERNELS_MEMINFO = "/run/oc/private/meminfo"
_PUBLIC = "/run/opencomputer"
_SECONDS_FOR_PROCESSES = 0.5


class MachineSize:
    """`whole_machine` is off where the system around us is not ours to change."""

    def __init__(self, spawner: Spawner, *, whole_machine: bool) -> None:
        self._spawner = spawner
        self._whole_machine = whole_machine
        self._lock = threading.Lock()
        self._memory_bytes = 0
        self._mask: set[int] = set()
        self._covered: set[str] = set()

    def change(self, request: Request) -> None:
        """Another size, while programs run."""
        self.apply(
            protocol.integer(request.fields, "memory_bytes"), protocol.integer(request.fields, "processors")
        )
        request.reply({})

    def apply(self, memory_bytes: int, processors: int) -> None:
        if not self._whole_machine or memory_bytes <= 0 or processors <= 0:
            return
        with self._lock:
            try:
                self._set_memory(memory_bytes)
                self._set_processors(processors)
            except OSError as error:
                log(f"programs cannot be shown the size of the machine: {error}")

    def memory(self) -> tuple[int, int]:
        """Total and available bytes."""
        text = self._kernels_meminfo()
        total, used = kernel_memory(text)
        total = self._memory_bytes or total
        return total, max(0, total - used)

    def refresh(self) -> None:
        """Show programs how much is used now, where that is not the kernel's to say."""
        if _MEMINFO not in self._covered:
            return
        with self._lock:
            try:
                self._show_memory()
            except OSError as error:
                log(f"cannot tell how much memory is used: {error}")

    def _set_memory(self, memory_bytes: int) -> None:
        text = self._kernels_meminfo()
        self._memory_bytes = memory_bytes
        self._spawner.most_processes = most_processes(memory_bytes)
        if _MEMINFO in self._covered or kernel_memory(text)[0] != memory_bytes:
            self._show_memory()

    def _show_memory(self) -> None:
        if not os.path.exists(_KERNELS_MEMINFO):
            os.makedirs(os.path.dirname(_KERNELS_MEMINFO), mode=0o700, exist_ok=True)
            _create(_KERNELS_MEMINFO)
            bind(_MEMINFO, _KERNELS_MEMINFO)
        self._cover(_MEMINFO, shown_meminfo(self._kernels_meminfo(), self._memory_bytes))

    def _kernels_meminfo(self) -> str:
        return _read(_KERNELS_MEMINFO) if _MEMINFO in self._covered else read_meminfo()

    def _set_processors(self, processors: int) -> None:
        possible = highest(_read(_POSSIBLE))
        mask = set(range(min(processors, possible + 1)))
        known, self._mask = self._mask, mask
        if mask == known:
            return
        _allow(mask, instead_of=known or set(range(possible + 1)))
        text = f"0-{max(mask)}\n" if len(mask) > 1 else "0\n"
        if text != _read(_ONLINE):
            self._cover(_ONLINE, text)

    def _cover(self, path: str, text: str) -> None:
        """Show the text in the place of a file of the kernel's. Written in place: others have it open."""
        cover = f"{_PUBLIC}/{os.path.basename(path)}"
        if path not in self._covered:
            os.makedirs(_PUBLIC, mode=0o755, exist_ok=True)
            _create(cover)
        with open(cover, "r+b", buffering=0) as file:
            content = text.encode()
            file.write(content)
            file.truncate(len(content))
        if path not in self._covered:
            bind(cover, path)
            self._covered.add(path)


def highest(text: str) -> int:
    """The last number of a list as "0-3" or "0,2"."""
    last = text.strip().replace("-", ",").rpartition(",")[2]
    return int(last) if last.isdecimal() else 0


def shown_meminfo(kernels: str, total_bytes: int) -> str:
    """The text of /proc/meminfo for another total."""
    free = max(0, total_bytes - kernel_memory(kernels)[1])
    other = {"MemTotal": total_bytes, "MemFree": free, "MemAvailable": free}
    lines: list[str] = []
    for line in kernels.splitlines():
        name = line.partition(":")[0]
        lines.append(f"{name + ':':<16}{other[name] // 1024:>8} kB" if name in other else line)
    return "\n".join([*lines, ""])


def _allow(mask: set[int], *, instead_of: set[int]) -> None:
    """Tell every task that has not chosen for itself, ourselves first: what is started later inherits it."""
    enough = time.monotonic() + _SECONDS_FOR_PROCESSES
    for pid in sorted((name for name in os.listdir("/proc") if name.isdecimal()), key=int):
        for task in _tasks(pid):
            try:
                if os.sched_getaffinity(task) == instead_of:
                    os.sched_setaffinity(task, mask)
            except OSError:
                continue  # it has ended
        if time.monotonic() > enough:
            return


def _tasks(pid: str) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def _create(path: str) -> None:
    with open(path, "ab") as file:
        os.fchmod(file.fileno(), 0o644)


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(1 << 16)
    except OSError:
        return ""
