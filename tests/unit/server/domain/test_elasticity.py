"""What size a sandbox may get, and when it gets another one by itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencomputer.server.domain.elasticity import (
    DOWN_COOLDOWN,
    UP_COOLDOWN,
    Bounds,
    MemoryWindow,
    Step,
    after_step,
    allowed_bounds,
    check_bounds,
    check_floor,
    check_size,
    may_step,
    with_lock,
)
from opencomputer.server.domain.errors import InvalidInput, OomFloor, PlanLimit, ScalingLocked
from opencomputer.server.domain.limits import TIERS
from opencomputer.server.domain.sandbox import Elasticity
from tests.support.rows import NOON, at

OPEN = Elasticity()
LOCKED = Elasticity(locked=True)
ALL = Bounds(1024, 16384)


@pytest.mark.parametrize(
    ("memory", "cpu", "expected"),
    [
        (1024, None, 1024),
        (16384, 400, 16384),
        (4096, 100, 4096),
        (None, 100, 1024),
        (None, 200, 8192),
        (None, 400, 16384),
    ],
)
def test_sizes_are_named_by_memory_processors_or_both(
    memory: int | None, cpu: int | None, expected: int
) -> None:
    assert check_size(OPEN, memory, cpu, None) == expected


@pytest.mark.parametrize(
    ("memory", "cpu", "field", "said"),
    [
        (None, None, "memoryMB", "required"),
        (0, None, "memoryMB", "1024, 4096, 8192, 16384"),
        (512, None, "memoryMB", "must be one of"),
        (2048, None, "memoryMB", "must be one of"),
        (32768, None, "memoryMB", "contact us"),
        (65536, 800, "memoryMB", "contact us"),
        (8192, 100, "cpuPercent", "must be 200"),
        (None, 300, "cpuPercent", "100, 200, 400"),
    ],
)
def test_sizes_that_are_not_offered(memory: int | None, cpu: int | None, field: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        check_size(OPEN, memory, cpu, None)
    assert refused.value.details["field"] == field


@pytest.mark.parametrize(
    ("elasticity", "memory", "error"),
    [
        (LOCKED, 65537, ScalingLocked),
        (LOCKED, 1024, ScalingLocked),
        (OPEN, 65537, PlanLimit),
        (OPEN, 8192, PlanLimit),
        (OPEN, 1000, InvalidInput),
    ],
)
def test_the_lock_comes_before_the_plan_and_the_plan_before_the_tier(
    elasticity: Elasticity, memory: int, error: type[Exception]
) -> None:
    with pytest.raises(error):
        check_size(elasticity, memory, None, 4096)


@given(used=st.integers(0, 20 << 30), memory=st.sampled_from(sorted(TIERS)))
def test_a_smaller_size_holds_what_is_used_and_a_twentieth(used: int, memory: int) -> None:
    if (memory << 20) * 100 >= used * 105:
        check_floor(memory, used)
    elif (memory << 20) < used + used // 20:
        with pytest.raises(OomFloor):
            check_floor(memory, used)


def test_nothing_shrinks_when_its_use_is_not_known() -> None:
    with pytest.raises(OomFloor):
        check_floor(16384, None)


@pytest.mark.parametrize(
    ("bounds", "elasticity", "cap", "error"),
    [
        (Bounds(4096, 1024), OPEN, None, InvalidInput),
        (Bounds(2048, 4096), OPEN, None, InvalidInput),
        (Bounds(1024, 32768), OPEN, None, InvalidInput),
        (Bounds(1024, 8192), OPEN, 4096, PlanLimit),
        (Bounds(1, 2), LOCKED, None, ScalingLocked),
    ],
)
def test_bounds_that_cannot_be(
    bounds: Bounds, elasticity: Elasticity, cap: int | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        check_bounds(elasticity, bounds, cap, enabled=True)


def test_switching_off_is_not_a_matter_of_locks_and_plans() -> None:
    check_bounds(LOCKED, ALL, 4096, enabled=False)


def test_bounds_that_were_never_set_are_the_present_size_and_the_largest() -> None:
    assert allowed_bounds(OPEN, 4096, None) == Bounds(4096, 16384)
    assert allowed_bounds(OPEN, 4096, 8192) == Bounds(4096, 8192)
    assert allowed_bounds(replace(OPEN, min_memory_mb=1024, max_memory_mb=8192), 4096, None) == Bounds(
        1024, 8192
    )


def test_a_lock_ends_autoscaling_and_its_end_does_not_bring_it_back() -> None:
    scaling = replace(OPEN, autoscale=True, min_memory_mb=1024, max_memory_mb=8192)
    locked = with_lock(scaling, locked=True)
    assert (locked.locked, locked.autoscale) == (True, False)
    unlocked = with_lock(locked, locked=False)
    assert (unlocked.locked, unlocked.autoscale) == (False, False)
    assert (unlocked.min_memory_mb, unlocked.max_memory_mb) == (1024, 8192)
    assert with_lock(scaling, locked=False) == scaling


# When it moves by itself


def window_of(*shares: float, memory_mb: int = 4096, pause: float = 30.0) -> MemoryWindow:
    """Samples half a minute apart, as parts of a size."""
    window = MemoryWindow()
    for number, share in enumerate(shares):
        window.add(number * pause, int(share * (memory_mb << 20)))
    return window


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([0.9], None),
        ([0.9, 0.9], 8192),
        ([0.0, 0.0, 0.9, 0.9, 0.9], 8192),
        ([0.76] * 3, 8192),
        ([0.75] * 3, None),
        ([0.9, 0.1, 0.1, 0.9], None),
        ([0.9] * 40 + [0.3, 0.3], None),
    ],
)
def test_up_when_a_minute_was_above_three_quarters(shares: list[float], expected: int | None) -> None:
    step = window_of(*shares).step(4096, ALL)
    assert step == (None if expected is None else Step(expected, up=True))


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([0.1] * 29, None),
        ([0.1] * 30, 8192),
        ([0.24] * 40, 8192),
        ([0.25] * 40, None),
        ([0.1] * 29 + [0.7, 0.7, 0.1], None),
        ([0.1] * 20 + [0.6] * 9 + [0.1, 0.1, 0.1], None),
        ([0.9] * 20 + [0.1] * 31, 8192),
    ],
)
def test_down_when_one_five_and_fifteen_minutes_were_below_a_quarter(
    shares: list[float], expected: int | None
) -> None:
    step = window_of(*shares, memory_mb=16384).step(16384, ALL)
    assert step == (None if expected is None else Step(expected, up=False))


def test_samples_that_come_a_little_late_are_enough() -> None:
    assert window_of(*[0.1] * 60, memory_mb=16384, pause=33.0).step(16384, ALL) == Step(8192, up=False)
    assert window_of(*[0.9] * 60, pause=33.0).step(4096, ALL) == Step(8192, up=True)


def test_not_down_to_where_it_would_be_up_again_at_once() -> None:
    assert window_of(*[0.24] * 40).step(4096, ALL) is None
    assert window_of(*[0.15] * 40).step(4096, ALL) == Step(1024, up=False)


@pytest.mark.parametrize("memory", sorted(TIERS))
@pytest.mark.parametrize("share", [0.01, 0.99])
def test_never_beyond_the_bounds(memory: int, share: float) -> None:
    assert window_of(*[share] * 40, memory_mb=memory).step(memory, Bounds(memory, memory)) is None


def test_one_step_at_a_time() -> None:
    sizes, size = [1024], 1024
    while (step := window_of(0.99, 0.99, memory_mb=size).step(size, ALL)) is not None:
        size = step.memory_mb
        sizes.append(size)
    assert sizes == sorted(TIERS)


@given(
    shares=st.lists(st.floats(0, 1), max_size=50),
    memory=st.sampled_from(sorted(TIERS)),
    low=st.sampled_from(sorted(TIERS)),
    high=st.sampled_from(sorted(TIERS)),
)
def test_every_step_is_to_the_next_size_within_the_bounds(
    shares: list[float], memory: int, low: int, high: int
) -> None:
    step = window_of(*shares, memory_mb=memory).step(memory, Bounds(low, high))
    if step is None:
        return
    tiers = sorted(TIERS)
    apart = 1 if step.up else -1
    assert tiers.index(step.memory_mb) == tiers.index(memory) + apart
    assert step.memory_mb <= high if step.up else step.memory_mb >= low


def test_after_a_step_there_is_a_pause() -> None:
    scaling = replace(OPEN, autoscale=True)
    up, down = Step(8192, up=True), Step(1024, up=False)
    for step, pause in ((up, UP_COOLDOWN), (down, DOWN_COOLDOWN)):
        assert may_step(scaling, step, NOON)
        paused = after_step(scaling, step, NOON)
        assert not may_step(paused, step, NOON + pause - timedelta(seconds=1))
        assert may_step(paused, step, NOON + pause)


def test_what_went_down_may_go_up_again_at_once() -> None:
    paused = after_step(replace(OPEN, autoscale=True), Step(1024, up=False), NOON)
    assert may_step(paused, Step(4096, up=True), at(1))


@pytest.mark.parametrize("changes", [{"autoscale": False}, {"locked": True}])
def test_nothing_moves_that_is_locked_or_does_not_autoscale(changes: dict[str, bool]) -> None:
    scaling = replace(OPEN, autoscale=True)
    assert not may_step(replace(scaling, **changes), Step(8192, up=True), NOON)
