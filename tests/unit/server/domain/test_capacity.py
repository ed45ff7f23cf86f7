"""How many machines are kept ready, and whether one more fits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencomputer.server.domain.capacity import (
    AdmissionPolicy,
    HostLoad,
    PoolPolicy,
    pool_target,
    refusal,
)

GIB = 1 << 30
MIB = 1 << 20
POLICY = PoolPolicy(memory_share=0.1, machine_bytes=40 * MIB, minimum=2, maximum=200)
ROOMY = HostLoad(
    available_memory_bytes=20 * GIB,
    total_memory_bytes=32 * GIB,
    disk_free_bytes=500 * GIB,
    disk_total_bytes=1000 * GIB,
    machines=0,
)
ADMISSION = AdmissionPolicy(machine_bytes=40 * MIB)


@pytest.mark.parametrize(
    ("recent", "memory", "expected"),
    [(0, 32 * GIB, 2), (1, 32 * GIB, 2), (2, 32 * GIB, 4), (30, 32 * GIB, 60), (500, 32 * GIB, 81)],
)
def test_the_pool_follows_demand_up_to_its_memory_share(recent: int, memory: int, expected: int) -> None:
    assert pool_target(POLICY, memory, recent) == expected


def test_a_small_host_keeps_fewer_than_the_minimum() -> None:
    assert pool_target(POLICY, 512 * MIB, 0) == 1
    assert pool_target(POLICY, 100 * MIB, 50) == 0


def test_a_maximum_of_none_switches_the_pool_off() -> None:
    assert pool_target(replace(POLICY, maximum=0), 1024 * GIB, 1000) == 0


@given(
    st.floats(0, 0.9),
    st.integers(0, 1 << 40),
    st.integers(0, 50),
    st.integers(0, 500),
    st.integers(0, 1 << 45),
)
def test_the_target_never_passes_a_bound(
    share: float, machine: int, minimum: int, maximum: int, memory: int
) -> None:
    target = pool_target(PoolPolicy(share, machine, minimum, maximum), memory, 1000)
    assert 0 <= target <= maximum
    assert target * max(machine, 1) <= memory * share + 1


def test_a_host_with_room_takes_one_more() -> None:
    assert refusal(ADMISSION, ROOMY) is None


@pytest.mark.parametrize(
    ("load", "word"),
    [
        (replace(ROOMY, machines=4000), "maximum"),
        (replace(ROOMY, available_memory_bytes=GIB), "memory"),
        (replace(ROOMY, disk_free_bytes=GIB), "disk"),
        (replace(ROOMY, disk_total_bytes=100 * GIB, disk_free_bytes=4 * GIB), "disk"),
    ],
)
def test_a_refusal_says_what_is_missing(load: HostLoad, word: str) -> None:
    reason = refusal(ADMISSION, load)
    assert reason is not None
    assert word in reason


def test_only_resident_memory_counts_not_what_was_promised() -> None:
    """A thousand machines of 4 GiB each fit as long as they do not use it."""
    assert refusal(ADMISSION, replace(ROOMY, machines=1000)) is None


def test_a_large_disk_is_not_reserved_by_share_alone() -> None:
    huge = replace(ROOMY, disk_total_bytes=20_000 * GIB, disk_free_bytes=60 * GIB)
    assert refusal(ADMISSION, huge) is None
