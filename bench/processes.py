"""What processes on this host use, read from /proc."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

_SAMPLE_SECONDS = 0.05


def resident_bytes(process_id: int) -> int:
    """The resident memory of one process, 0 when it is gone."""
    return _status_bytes(process_id, "VmRSS:")


def processor_seconds(process_id: int) -> float:
    """What one process has computed so far, in its own code and in the kernel's; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class PeakMemory:
    """The most resident memory one process has while this context is open."""

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.before = resident_bytes(process_id)
        self.peak = self.before

    @property
    def growth(self) -> int:
        return self.peak - self.before

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(_SAMPLE_SECONDS):
            self.peak = max(self.peak, resident_bytes(self._process_id))


def _status_bytes(process_id: int, name: str) -> int:
    try:
        lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)
