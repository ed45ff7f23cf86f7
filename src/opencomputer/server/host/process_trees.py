"""A process and everything that descends from it, where no control group holds them together."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from opencomputer.server.host.processes import ProcessRef, is_alive

_PROC = Path("/proc")


class TreeStuck(Exception):
    """Processes did not end although they were killed."""


def descendants(root: int, parents: Iterable[tuple[int, int]]) -> set[int]:
    """All processes below `root`, from pairs of process and parent. Pure."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents:
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    waiting = [root]
    while waiting:
        for child in children.get(waiting.pop(), []):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def kill_tree(root: ProcessRef, *, deadline_seconds: float) -> None:
    """End a process and its descendants, stopped ones too. Idempotent; blocks. Raises TreeStuck.

    Complete only for a root that adopts its orphans: descendants are looked for before it is killed, and
    it is stopped meanwhile, so that it starts nothing new.
    """
    end = time.monotonic() + deadline_seconds
    while is_alive(root):
        _signal(root.pid, signal.SIGSTOP)
        below = {pid for pid in descendants(root.pid, _parents()) if _is_running(pid)}
        for pid in below:
            _signal(pid, signal.SIGKILL)
        if not below:
            _signal(root.pid, signal.SIGKILL)
        if time.monotonic() > end:
            raise TreeStuck(f"process {root.pid} did not end within {deadline_seconds} s")
        time.sleep(0.002)


def tree(root: int) -> list[int]:
    """A process and its descendants, as they are now."""
    return [root, *sorted(descendants(root, _parents()))]


def _parents() -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for name in os.listdir(_PROC):
        if name.isdigit():
            # Of all processes of the host, so without the layers that a text file has.
            with contextlib.suppress(OSError, IndexError, ValueError):
                with open(f"{_PROC}/{name}/stat", "rb", buffering=0) as stat:
                    fields = stat.read(1024).rpartition(b")")[2].split(None, 2)
                pairs.append((int(name), int(fields[1])))
    return pairs


def _is_running(pid: int) -> bool:
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in "ZXx"
    except (OSError, IndexError):
        return False


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
