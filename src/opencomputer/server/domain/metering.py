"""What counts of a sandbox, and when: each state and size it comes to ends intervals and begins others.

Everything is in whole seconds and whole MB. So any sum is exact, and parts of a period add up to all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from opencomputer.server.domain.sandbox import TERMINAL, SandboxShape, SandboxState
from opencomputer.wire.ids import SandboxId

INCLUDED_DISK_MB = 20480

_MEMORY_COUNTS = frozenset({SandboxState.RUNNING, SandboxState.RESTORING, SandboxState.REBOOTING})
_NO_DISK = frozenset({SandboxState.CREATING, *TERMINAL})


class Meter(StrEnum):
    """MEMORY is what a sandbox may use, not what it does; DISK is what exceeds the size that is included."""

    MEMORY = "memory"
    DISK = "disk"


@dataclass(frozen=True, slots=True)
class Interval:
    """So many MB of a sandbox counted from one second until another. `end` None: they still do."""

    sandbox_id: SandboxId
    meter: Meter
    megabytes: int
    begin: int
    end: int | None = None


@dataclass(frozen=True, slots=True)
class MemorySample:
    """How much memory a sandbox really used at a moment."""

    sandbox_id: SandboxId
    second: int
    kib: int


@dataclass(frozen=True)
class Switch:
    """Meters whose open intervals end, and what begins in the same second."""

    ending: tuple[Meter, ...] = ()
    beginning: Mapping[Meter, int] | None = None


def second_of(moment: datetime) -> int:
    """The second a moment falls into, counted from 1970."""
    return int(moment.timestamp() // 1)


def counted(state: SandboxState, shape: SandboxShape) -> Mapping[Meter, int]:
    """The MB that count. Memory does from when a sandbox is ready until it is put to sleep or ends; the disk
    from then until the sandbox ends, asleep or not."""
    memory = shape.memory_mb if state in _MEMORY_COUNTS else 0
    disk = 0 if state in _NO_DISK else max(shape.disk_mb - INCLUDED_DISK_MB, 0)
    return {meter: mb for meter, mb in ((Meter.MEMORY, memory), (Meter.DISK, disk)) if mb}


def switch(running: Mapping[Meter, int], wanted: Mapping[Meter, int]) -> Switch:
    """From the intervals that are open to those that are to be."""
    return Switch(
        ending=tuple(meter for meter, mb in running.items() if wanted.get(meter) != mb),
        beginning={meter: mb for meter, mb in wanted.items() if running.get(meter) != mb},
    )
