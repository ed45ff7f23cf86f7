"""What this host has and what is in use."""

from __future__ import annotations

import os
from pathlib import Path

from opencomputer.server.domain.capacity import HostLoad


class SystemGauge:
    """Reads /proc/meminfo and the file system of the data folder."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def load(self, machines: int) -> HostLoad:
        memory = _meminfo()
        disk = os.statvfs(self._data)
        return HostLoad(
            available_memory_bytes=memory["MemAvailable"],
            total_memory_bytes=memory["MemTotal"],
            disk_free_bytes=disk.f_bavail * disk.f_frsize,
            disk_total_bytes=disk.f_blocks * disk.f_frsize,
            machines=machines,
        )


def _meminfo() -> dict[str, int]:
    lines = Path("/proc/meminfo").read_text().splitlines()
    split = (line.split() for line in lines)
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in split}
