"""Ends the largest process before the machine's memory runs out.

Where nothing inside has a limit of its own (gVisor), what meets the end of the memory is the whole machine.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback

from .loop import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .size import MachineSize
    from .trees import Trees

_LEAST_RESERVE = 32 * 1024 * 1024
_RESERVE_DIVISOR = 32
_FASTEST_GROWTH = 2 * 1024**3
"""Bytes per second: how often we look follows from how soon the memory could be full."""
_SHORTEST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0
_FIRST_PAUSE = 0.1
"""Most commands are over by then and were never looked at."""
_LEAST_SHARE = 20
"""A process with less than this part of the memory (1/n) is not what fills it: files in /tmp may be."""
_SECONDS_TO_LOOK = 0.5
_MOST_PROCESSES = 4096
_LEAST_PROCESSES = 128
_BYTES_PER_PROCESS = 1024 * 1024
_BEARABLE_PROCESSES = 1024
_BYTES_PER_BEARABLE_PROCESS = 4 * 1024 * 1024
_PAGE = os.sysconf("SC_PAGE_SIZE")


class MemoryGuard:
    """Looks at the memory as long as there are user processes, in a thread of its own.

    On a machine that is busy enough one look takes seconds, and the loop has better things to do.
    """

    def __init__(self, trees: Trees, size: MachineSize) -> None:
        self._trees = trees
        self._size = size
        self._started = threading.Event()
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """A process was started."""
        self._started.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()

    def _watch(self) -> None:
        while True:
            self._started.wait()
            self._started.clear()
            time.sleep(_FIRST_PAUSE)
            while self._trees.count_processes():
                time.sleep(self._look())

    def _look(self) -> float:
        """Make room if there must be; the seconds until the next look."""
        try:
            total, free = self._size.memory()
            self._size.refresh()
            if total and free < reserve(total):
                _make_room(total)
        except Exception:
            # The thread must outlive every mistake of its own.
            log(traceback.format_exc())
            return _LONGEST_PAUSE
        return pause(total, free)


def _make_room(total: int) -> None:
    victim = choose(resident_sizes(), total)
    if victim is None:
        return
    log(f"out of memory: killing process {victim}")
    try:
        os.kill(victim, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def most_processes(total: int) -> int:
    """How many processes and threads the users of a machine with so many bytes of memory may have.

    gVisor needs about 600 KiB for a small process. A fork bomb must end at a limit and not at the memory, nor
    where our own calls have to wait for so many others that nobody can end it: with one processor, which
    comes with up to 4 GiB, one call may take ten seconds once there are two thousand.
    """
    bearable = max(_BEARABLE_PROCESSES, total // _BYTES_PER_BEARABLE_PROCESS)
    return max(_LEAST_PROCESSES, min(_MOST_PROCESSES, bearable, total // _BYTES_PER_PROCESS))


def read_meminfo() -> str:
    return _read("/proc/meminfo")


def reserve(total: int) -> int:
    """How much must stay free for what is taken before we look again."""
    return max(_LEAST_RESERVE, total // _RESERVE_DIVISOR)


def pause(total: int, free: int) -> float:
    """Seconds until the next look."""
    return min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, (free - reserve(total)) / _FASTEST_GROWTH))


def choose(sizes: dict[int, int], total: int) -> int | None:
    """The largest process, if it is large at all."""
    if not sizes:
        return None
    victim = max(sizes, key=lambda pid: sizes[pid])
    return victim if sizes[victim] >= total // _LEAST_SHARE else None


def kernel_memory(text: str) -> tuple[int, int]:
    """Total and used bytes; zeros when the text does not say."""
    found = _parse(text)
    total = found.get("MemTotal", 0)
    available = found.get("MemAvailable", found.get("MemFree", 0))
    if available:
        return total, total - available
    # More than it was started with, for all it knows; what is in use it still counts.
    return total, max(total, found.get("Active", 0) + found.get("Inactive", 0))


def _parse(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 2 and fields[1].isdecimal():
            found[fields[0].rstrip(":")] = int(fields[1]) * 1024
    return found


def resident_sizes() -> dict[int, int]:
    """Resident bytes of every process but ourselves, or of as many as can be looked at in a moment."""
    sizes: dict[int, int] = {}
    enough = time.monotonic() + _SECONDS_TO_LOOK
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        if time.monotonic() > enough:
            break
        fields = _read(f"/proc/{name}/statm").split()
        if len(fields) >= 2 and fields[1].isdecimal():
            sizes[int(name)] = int(fields[1]) * _PAGE
    return sizes


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(1 << 16)
    except OSError:
        return ""
