"""What programs are shown of the size of their machine."""

from __future__ import annotations

import os

import pytest

from opencomputer.inside.guest import memory
from opencomputer.inside.guest.size import MachineSize, highest, shown_meminfo
from opencomputer.inside.guest.spawning import Spawner

KERNELS = """MemTotal:        1048576 kB
MemFree:          524288 kB
MemAvailable:     524288 kB
Buffers:               0 kB
Active:           500000 kB
Inactive:          24288 kB
odd
"""
FULL = KERNELS.replace("524288 kB", "0 kB").replace("500000", "2073152")
MIB = 1 << 20


@pytest.mark.parametrize(("text", "last"), [("0-3\n", 3), ("0\n", 0), ("0,2\n", 2), ("0-1,4-7", 7), ("", 0)])
def test_the_last_processor_of_a_list(text: str, last: int) -> None:
    assert highest(text) == last


@pytest.mark.parametrize(
    ("kernels", "total", "free"),
    [(KERNELS, 4096, 3584), (KERNELS, 1024, 512), (KERNELS, 256, 0), (FULL, 8192, 6143), (FULL, 1024, 0)],
)
def test_another_total_leaves_what_is_used(kernels: str, total: int, free: int) -> None:
    shown = shown_meminfo(kernels, total * MIB)
    assert shown.splitlines()[0] == f"MemTotal:       {total * 1024:>8} kB"
    told, used = memory.kernel_memory(shown.replace("Active", "X").replace("Inactive", "Y"))
    assert told == total * MIB
    assert (told - used) // MIB == free


def test_everything_else_stays_as_it_is() -> None:
    same, shown = KERNELS.splitlines(), shown_meminfo(KERNELS, 4096 * MIB).splitlines()
    assert shown[3:] == same[3:]
    assert [len(line) for line in shown] == [len(line) for line in same]


def test_a_system_that_is_not_ours_is_not_changed() -> None:
    spawner = Spawner(None, 7)
    size = MachineSize(spawner, whole_machine=False)
    before = os.sched_getaffinity(0)
    size.apply(64 * MIB, 1)
    size.refresh()
    assert os.sched_getaffinity(0) == before
    assert spawner.most_processes == 7
    total, free = size.memory()
    assert 0 < free < total
