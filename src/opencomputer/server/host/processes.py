"""Processes that are not our children: naming them safely, watching them end."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_DEAD_STATES = frozenset("ZXx")


@dataclass(frozen=True)
class ProcessRef:
    """One process, told apart from a later one with the same number by when it started."""

    pid: int
    start_ticks: int


def parse_stat(text: str) -> tuple[str, int]:
    """State letter and start time (in clock ticks since boot) from the text of /proc/PID/stat."""
    after_name = text.rpartition(")")[2].split()
    return after_name[0], int(after_name[19])


def reference(pid: int, *, proc: Path = _PROC) -> ProcessRef | None:
    """Name a process that is alive now. A zombie counts as dead."""
    try:
        state, start_ticks = parse_stat((proc / str(pid) / "stat").read_text())
    except (OSError, IndexError, ValueError):
        return None
    return None if state in _DEAD_STATES else ProcessRef(pid, start_ticks)


def is_alive(process: ProcessRef, *, proc: Path = _PROC) -> bool:
    return reference(process.pid, proc=proc) == process


def boot_id(*, proc: Path = _PROC) -> str:
    """Changes with every boot of the host."""
    return (proc / "sys/kernel/random/boot_id").read_text().strip()


async def wait_end(process: ProcessRef) -> None:
    """Return once the process has ended, whoever is its parent. Returns at once when it is gone."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        # Between the record and the open the number may have passed to another process.
        if is_alive(process):
            await _readable(descriptor)
    finally:
        os.close(descriptor)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
