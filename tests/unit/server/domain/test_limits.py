"""Sizes: the tier table, disks, environments, metadata."""

from __future__ import annotations

import pytest

from opencomputer.server.domain.errors import Forbidden, InvalidInput
from opencomputer.server.domain.limits import (
    MAX_DISK_MB,
    MAX_ENVIRONMENT_BYTES,
    MAX_METADATA_BYTES,
    MIN_DISK_MB,
    check_environment,
    check_metadata,
    resolve_shape,
)
from opencomputer.server.domain.sandbox import SandboxShape


def resolve(
    memory_mb: int | None = None,
    cpu_count: int | None = None,
    disk_mb: int | None = None,
    disk_cap_mb: int = MAX_DISK_MB,
) -> SandboxShape:
    return resolve_shape(memory_mb, cpu_count, disk_mb, disk_cap_mb=disk_cap_mb)


@pytest.mark.parametrize(
    ("memory", "cpu", "expected"),
    [
        (None, None, (4096, 1)),
        (1024, None, (1024, 1)),
        (4096, None, (4096, 1)),
        (8192, None, (8192, 2)),
        (16384, None, (16384, 4)),
        (None, 1, (1024, 1)),
        (None, 2, (8192, 2)),
        (None, 4, (16384, 4)),
        (1024, 1, (1024, 1)),
        (4096, 1, (4096, 1)),
        (8192, 2, (8192, 2)),
        (16384, 4, (16384, 4)),
    ],
)
def test_what_a_create_names_becomes_one_tier(
    memory: int | None, cpu: int | None, expected: tuple[int, int]
) -> None:
    shape = resolve(memory, cpu)
    assert (shape.memory_mb, shape.cpu_count) == expected


@pytest.mark.parametrize(
    ("memory", "cpu", "field"),
    [
        (0, None, "memoryMB"),
        (-1, None, "memoryMB"),
        (512, None, "memoryMB"),
        (2048, None, "memoryMB"),
        (4097, None, "memoryMB"),
        (65536, None, "memoryMB"),
        (1 << 70, None, "memoryMB"),
        (None, 0, "cpuCount"),
        (None, 3, "cpuCount"),
        (None, 8, "cpuCount"),
        (None, -1, "cpuCount"),
        (8192, 1, "cpuCount"),
        (1024, 4, "cpuCount"),
        (4096, 0, "cpuCount"),
    ],
)
def test_anything_that_is_no_tier_is_refused_by_name(memory: int | None, cpu: int | None, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        resolve(memory, cpu)
    assert refused.value.details["field"] == field


@pytest.mark.parametrize("disk", [MIN_DISK_MB, 20481, 100_000, MAX_DISK_MB])
def test_a_disk_within_bounds_is_taken(disk: int) -> None:
    assert resolve(disk_mb=disk).disk_mb == disk


def test_the_default_disk_is_the_smallest() -> None:
    assert resolve().disk_mb == 20480


@pytest.mark.parametrize("disk", [-1, 0, 1, MIN_DISK_MB - 1, MAX_DISK_MB + 1, 1 << 60])
def test_a_disk_out_of_bounds_is_invalid(disk: int) -> None:
    with pytest.raises(InvalidInput, match="diskMB"):
        resolve(disk_mb=disk)


def test_a_disk_above_the_cap_is_forbidden_not_invalid() -> None:
    with pytest.raises(Forbidden, match="30000"):
        resolve(disk_mb=30001, disk_cap_mb=30000)
    assert resolve(disk_mb=30000, disk_cap_mb=30000).disk_mb == 30000


@pytest.mark.parametrize("name", ["", "A=B", "=", "A\0B", "\0"])
def test_an_environment_name_that_no_process_can_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_environment({name: "x"}, "envs")
    assert refused.value.details["field"] == "envs"


def test_a_value_with_nul_is_refused_and_its_name_said() -> None:
    with pytest.raises(InvalidInput, match=r"envs\.KEY"):
        check_environment({"KEY": "a\0b"})


@pytest.mark.parametrize("variables", [{}, {"A": ""}, {"with space": "ü\n"}, {"lower.case-1": "=="}])
def test_odd_but_possible_variables_are_taken(variables: dict[str, str]) -> None:
    check_environment(variables)


def test_an_environment_is_bounded_in_bytes_not_in_letters() -> None:
    fits = MAX_ENVIRONMENT_BYTES - len("A") - 2
    check_environment({"A": "x" * fits})
    for value in ("x" * (fits + 1), "€" * (fits // 3 + 1)):
        with pytest.raises(InvalidInput):
            check_environment({"A": value})


def test_metadata_is_bounded_in_bytes() -> None:
    check_metadata({"k": "x" * (MAX_METADATA_BYTES - 1)})
    with pytest.raises(InvalidInput, match="metadata"):
        check_metadata({"k": "x" * MAX_METADATA_BYTES})
    with pytest.raises(InvalidInput, match="metadata"):
        check_metadata({"k": "é" * (MAX_METADATA_BYTES // 2)})
