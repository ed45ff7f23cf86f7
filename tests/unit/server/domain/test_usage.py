"""Usage of a period: every second counts once, and the parts come to the whole."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opencomputer.server.domain.metering import Interval, MemorySample, Meter
from opencomputer.server.domain.usage import (
    Amounts,
    Group,
    Place,
    TagFilter,
    Window,
    by_value,
    matching,
    page_of,
    total_of,
    used,
    without,
)
from opencomputer.server.domain.usage_series import needed, series_of
from opencomputer.wire.ids import SandboxId

_LAST = 400
ONE, TWO = SandboxId("sb-00000001"), SandboxId("sb-00000002")

_seconds = st.integers(0, _LAST)


@st.composite
def _intervals(draw: st.DrawFn) -> list[Interval]:
    """As a ledger has them, and also as one would whose clock was set back at times."""
    found: list[Interval] = []
    for sandbox in (ONE, TWO):
        for meter in Meter:
            for _ in range(draw(st.integers(0, 4))):
                begin = draw(_seconds)
                end = draw(st.one_of(st.none(), st.integers(begin, _LAST)))
                found.append(Interval(sandbox, meter, draw(st.sampled_from([1024, 4096])), begin, end))
    return sorted(found, key=lambda each: each.begin)


def _in(window: Window, intervals: list[Interval]) -> list[Interval]:
    """What a store finds for a window."""
    begun = [each for each in intervals if each.begin < window.end]
    return [each for each in begun if each.end is None or each.end > window.begin]


def _amounts(intervals: list[Interval], window: Window, now: int = _LAST) -> dict[SandboxId, Amounts]:
    return used(_in(window, intervals), window, now)


def _plus(first: dict[SandboxId, Amounts], second: dict[SandboxId, Amounts]) -> dict[SandboxId, Amounts]:
    none = Amounts()
    return {each: first.get(each, none) + second.get(each, none) for each in first.keys() | second.keys()}


@settings(max_examples=60)
@given(intervals=_intervals(), cuts=st.lists(_seconds, min_size=2, max_size=6, unique=True))
def test_a_window_that_is_cut_anywhere_comes_to_the_same(intervals: list[Interval], cuts: list[int]) -> None:
    cuts.sort()
    parts: dict[SandboxId, Amounts] = {}
    for begin, end in pairwise(cuts):
        parts = _plus(parts, _amounts(intervals, Window(begin, end)))
    assert parts == _amounts(intervals, Window(cuts[0], cuts[-1]))


@settings(max_examples=60)
@given(intervals=_intervals(), now=_seconds)
def test_no_second_counts_twice_and_none_that_has_not_come(intervals: list[Interval], now: int) -> None:
    whole = _amounts(intervals, Window(0, _LAST), now)
    for sandbox in (ONE, TWO):
        for meter in Meter:
            mine = [each for each in intervals if (each.sandbox_id, each.meter) == (sandbox, meter)]
            covered = {
                second
                for each in mine
                for second in range(each.begin, min(now, now if each.end is None else each.end))
            }
            amount = whole.get(sandbox, Amounts()).of(meter)
            assert 1024 * len(covered) <= amount <= 4096 * len(covered)


@settings(max_examples=60)
@given(intervals=_intervals(), begin=_seconds, length=st.integers(1, _LAST), data=st.data())
def test_points_come_to_their_total_and_that_is_what_reports_say(
    intervals: list[Interval], begin: int, length: int, data: st.DataObject
) -> None:
    window, mine = Window(begin, begin + length), [each for each in intervals if each.sandbox_id == ONE]
    samples = [MemorySample(ONE, second, 7) for second in sorted(data.draw(st.sets(_seconds, max_size=5)))]
    series = series_of(_in(needed(window), mine), samples, window, _LAST)
    total, points = series.total, series.points
    assert total.allocated == sum(each.allocated for each in points)
    assert total.used_kib == sum(each.used_kib for each in points)
    assert total.uptime == sum(each.uptime for each in points)
    assert total.allocated == _amounts(mine, window).get(ONE, Amounts()).memory
    assert [each.second for each in points] == list(range(begin // 60 * 60, begin + length, 60))
    assert all(each.uptime <= 60 and each.used_kib <= 7 * each.uptime for each in points)


@settings(max_examples=60)
@given(intervals=_intervals(), cuts=st.sets(_seconds, min_size=3, max_size=3), data=st.data())
def test_memory_in_use_comes_to_the_same_however_the_window_is_cut(
    intervals: list[Interval], cuts: set[int], data: st.DataObject
) -> None:
    mine = [each for each in intervals if each.sandbox_id == ONE]
    seconds = sorted(data.draw(st.sets(_seconds, max_size=5)))
    samples = [MemorySample(ONE, second, 1 + number) for number, second in enumerate(seconds)]

    def used_in(begin: int, end: int) -> int:
        window = Window(begin, end)
        period = needed(window)
        near = [each for each in samples if period.begin <= each.second < period.end]
        return series_of(_in(period, mine), near, window, _LAST).total.used_kib

    first, middle, last = sorted(cuts)
    assert used_in(first, middle) + used_in(middle, last) == used_in(first, last)


def test_a_sample_holds_until_the_next_one_or_the_end_of_the_run() -> None:
    """The run goes on through a change of size, not through a sleep; after an hour it is out of date."""
    intervals = [
        Interval(ONE, Meter.MEMORY, 1024, 30, 120),
        Interval(ONE, Meter.MEMORY, 4096, 120, 200),
        Interval(ONE, Meter.MEMORY, 1024, 300, 300 + 62 * 60),
    ]
    samples = [MemorySample(ONE, 50, 10), MemorySample(ONE, 170, 20), MemorySample(ONE, 300, 5)]
    series = series_of(intervals, samples, Window(0, 360 + 62 * 60), 10**6)
    peaks = [each.used_peak_kib for each in series.points]
    assert peaks[:6] == [10, 10, 20, 20, 0, 5]
    assert peaks[64:68] == [5, 0, 0, 0]
    first = series.points[0]
    assert (first.uptime, first.used_kib, first.used_average_kib) == (30, 300, 10)
    assert [each.allocated_peak_mb for each in series.points[:6]] == [1024, 1024, 4096, 4096, 0, 1024]


@pytest.mark.parametrize(
    ("values", "admitted"),
    [
        ({"a"}, {"a"}),
        ({"a", "b"}, {"a", "b"}),
        ({""}, {None}),
        ({"", "a"}, {None, "a"}),
    ],
)
def test_a_filter_admits_any_of_its_values_and_the_empty_one_stands_for_no_tag(
    values: set[str], admitted: set[str | None]
) -> None:
    found = TagFilter("team", frozenset(values))
    assert {each for each in (None, "", "a", "b", "c") if found.admits(each)} == admitted


def test_all_filters_have_to_admit() -> None:
    amounts = {ONE: Amounts(1), TWO: Amounts(2)}
    values = {"team": {ONE: "a", TWO: "a"}, "job": {TWO: "7"}}
    filters = [TagFilter("team", frozenset("a")), TagFilter("job", frozenset({""}))]
    assert matching(amounts, filters, values) == {ONE: Amounts(1)}


@given(st.dictionaries(st.text(max_size=3).map(SandboxId), st.sampled_from([None, "", "a", "b"])))
def test_groups_and_the_rest_come_to_everything(tags: dict[SandboxId, str | None]) -> None:
    amounts = {name: Amounts(number, 3 * number) for number, name in enumerate(tags)}
    values = {name: value for name, value in tags.items() if value is not None}
    groups, rest = by_value(amounts, values), without(amounts, values)
    assert total_of([rest.amounts, *(each.amounts for each in groups)]) == total_of(amounts.values())
    assert rest.sandboxes + sum(each.sandboxes for each in groups) == len(amounts)
    assert {each.name for each in groups} == set(values.values())


@given(
    st.dictionaries(st.text(max_size=2), st.integers(0, 3), max_size=20),
    st.integers(1, 4),
    st.sampled_from(Meter),
)
def test_pages_have_each_group_once_and_most_first(given_: dict[str, int], limit: int, order: Meter) -> None:
    groups = [Group(name, Amounts(memory=amount, disk=3 - amount)) for name, amount in given_.items()]
    found: list[Group] = []
    after: Place | None = None
    while True:
        page, after = page_of(groups, order, limit, after)
        found += page
        if after is None:
            break
        assert len(page) == limit
    assert sorted(each.name for each in found) == sorted(given_)
    amounts = [each.amounts.of(order) for each in found]
    assert amounts == sorted(amounts, reverse=True)
