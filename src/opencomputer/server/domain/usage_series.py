"""What one sandbox used minute by minute."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opencomputer.server.domain.metering import Interval, MemorySample, Meter
from opencomputer.server.domain.usage import Window, spans

MINUTE = 60
SAMPLE_HOLDS_MINUTES = 60
"""How long a sample tells how much memory is in use, when no other comes. It may stay away that long where
nothing changes."""


@dataclass(slots=True)
class UsagePoint:
    """A minute that begins at `second`: MB, or KiB, times seconds; seconds of uptime; and the largest sizes.

    `used_kib` is of the memory in use, 0 where nobody looked.
    """

    second: int
    allocated: int = 0
    used_kib: int = 0
    uptime: int = 0
    allocated_peak_mb: int = 0
    used_peak_kib: int = 0

    @property
    def used_average_kib(self) -> int:
        return self.used_kib // self.uptime if self.uptime else 0

    def add(self, seconds: int, megabytes: int, kib: int) -> None:
        self.allocated += seconds * megabytes
        self.used_kib += seconds * kib
        self.uptime += seconds
        self.allocated_peak_mb = max(self.allocated_peak_mb, megabytes)
        self.used_peak_kib = max(self.used_peak_kib, kib)


@dataclass(frozen=True)
class UsageSeries:
    """All points of a window, and what they come to together."""

    window: Window
    points: Sequence[UsagePoint]
    total: UsagePoint


def needed(window: Window) -> Window:
    """The period whose intervals and samples have a bearing on a window."""
    return Window(window.begin - SAMPLE_HOLDS_MINUTES * MINUTE, _minute_after(window.end) * MINUTE)


def series_of(
    intervals: Iterable[Interval], samples: Iterable[MemorySample], window: Window, now: int
) -> UsageSeries:
    """One point for each minute that the window touches; what lies outside of the window does not count.

    A sample counts from the beginning of its minute until the next one, but only while the sandbox ran on.
    Intervals are in the order in which they began, samples in that of their seconds.
    """
    first = window.begin // MINUTE
    points = [UsagePoint(minute * MINUTE) for minute in range(first, _minute_after(window.end))]
    memory = [
        _Span(each.megabytes, begin, end)
        for each, begin, end in spans(intervals, now)
        if each.meter is Meter.MEMORY
    ]
    taken = list(samples)
    for run in _runs(memory):
        held = _Held(run, taken)
        for each in run:
            _spread(each, window, held, points)
    return UsageSeries(window, points, _total(window, points))


@dataclass(frozen=True, slots=True)
class _Span:
    """So many MB, from one second until another."""

    megabytes: int
    begin: int
    end: int


def _spread(span: _Span, window: Window, held: _Held, points: Sequence[UsagePoint]) -> None:
    begin, end = max(span.begin, window.begin), min(span.end, window.end)
    first = window.begin // MINUTE
    for minute in range(begin // MINUTE, _minute_after(end)) if begin < end else ():
        seconds = min(end, (minute + 1) * MINUTE) - max(begin, minute * MINUTE)
        points[minute - first].add(seconds, span.megabytes, held.at(minute))


def _runs(spans: Sequence[_Span]) -> list[list[_Span]]:
    """Spans without a gap between them: the machine was given another size, and went on."""
    runs: list[list[_Span]] = []
    for each in spans:
        if runs and runs[-1][-1].end == each.begin:
            runs[-1].append(each)
        else:
            runs.append([each])
    return runs


class _Held:
    """What samples of one run say about each of its minutes."""

    def __init__(self, run: Sequence[_Span], samples: Sequence[MemorySample]) -> None:
        ends = run[0].begin, run[-1].end
        from_, until = (bisect_left(samples, second, key=_second) for second in ends)
        self._kib = [each.kib for each in samples[from_:until]]
        self._minutes = [each.second // MINUTE for each in samples[from_:until]]

    def at(self, minute: int) -> int:
        number = bisect_right(self._minutes, minute) - 1
        if number < 0 or self._minutes[number] <= minute - SAMPLE_HOLDS_MINUTES:
            return 0
        return self._kib[number]


def _second(sample: MemorySample) -> int:
    return sample.second


def _minute_after(second: int) -> int:
    """The first minute that begins at a second, or after it."""
    return -(-second // MINUTE)


def _total(window: Window, points: Iterable[UsagePoint]) -> UsagePoint:
    total = UsagePoint(window.begin)
    for each in points:
        total.allocated += each.allocated
        total.used_kib += each.used_kib
        total.uptime += each.uptime
        total.allocated_peak_mb = max(total.allocated_peak_mb, each.allocated_peak_mb)
        total.used_peak_kib = max(total.used_peak_kib, each.used_peak_kib)
    return total
