"""The figures of a benchmark are values that were measured, and ratios that mean the same in every line."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.samples import Distribution, Figure, Target, percentile

numbers = st.lists(st.floats(0, 1e6), min_size=1, max_size=200)


@given(numbers, st.floats(0, 1))
def test_a_percentile_is_a_sample_that_enough_others_stay_below(samples: list[float], share: float) -> None:
    ordered = sorted(samples)
    found = percentile(ordered, share)
    assert found in ordered
    assert sum(sample <= found for sample in ordered) >= share * len(ordered)


def test_percentiles_of_a_hundred_samples() -> None:
    found = Distribution.of([float(number) for number in range(100, 0, -1)])
    assert (found.count, found.p50, found.p95, found.least, found.most) == (100, 50, 95, 1, 100)


def test_nothing_measured_is_no_number() -> None:
    """A mode in which everything failed has no figures, and none that looks like a good one."""
    assert math.isnan(Distribution.of([]).p50)


@pytest.mark.parametrize(
    ("value", "target", "ratio"),
    [(30, Target(60), 0.5), (90, Target(60), 1.5), (400, Target(200, at_least=True), 0.5), (5, None, None)],
)
def test_a_ratio_up_to_one_is_held(value: float, target: Target | None, ratio: float | None) -> None:
    """Whether less is better or more."""
    assert Figure("x", value, "", target).ratio == ratio


def test_nothing_where_something_is_to_be_had_is_not_held() -> None:
    """No success at all is not "no target"."""
    assert Figure("succeeded", 0, "%", Target(100, at_least=True)).ratio == math.inf
