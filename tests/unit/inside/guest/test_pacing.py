"""A process waits for its fastest reader, and for nobody who does not read on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from opencomputer.inside.guest.pacing import LEAST_PROGRESS_BYTES, PATIENCE_SECONDS, Pace

BUDGET = 1 << 20
FAR = BUDGET * 3 // 4 + 1
NEAR = BUDGET // 2


class ManualTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualLoop:
    """Timers fire when the test says so."""

    def __init__(self) -> None:
        self.timers: list[ManualTimer] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> ManualTimer:
        assert seconds == PATIENCE_SECONDS
        self.timers.append(ManualTimer(callback))
        return self.timers[-1]

    def pass_patience(self) -> None:
        due, self.timers = self.timers, []
        for timer in due:
            if timer.callback is not None:
                timer.callback()


class Paced:
    def __init__(self, budget: int = BUDGET) -> None:
        self.loop = ManualLoop()
        self.said: list[str] = []
        hold, release = (lambda: self.said.append("hold")), (lambda: self.said.append("release"))
        self.pace = Pace(self.loop, budget, hold, release)


@pytest.fixture
def paced() -> Paced:
    return Paced()


def test_a_reader_that_keeps_up_is_never_waited_for(paced: Paced) -> None:
    for written in range(0, 10 * BUDGET, 65536):
        paced.pace.update(written, max(0, written - NEAR))
    assert paced.said == []


def test_a_process_that_is_far_ahead_waits_until_its_reader_is_near(paced: Paced) -> None:
    """Not until it has read everything: readers tell of their progress in large steps."""
    paced.pace.update(FAR, 0)
    assert paced.pace.holding
    paced.pace.update(FAR, FAR - NEAR - 1)
    assert paced.said == ["hold"]
    paced.pace.update(FAR, FAR - NEAR)
    assert paced.said == ["hold", "release"]
    assert not paced.pace.holding


def test_a_reader_that_reads_on_is_waited_for_as_long_as_it_takes(paced: Paced) -> None:
    paced.pace.update(100 * BUDGET, 0)
    for step in range(1, 20):
        paced.pace.update(100 * BUDGET, step * LEAST_PROGRESS_BYTES)
        paced.loop.pass_patience()
    assert paced.said == ["hold"]


def test_a_reader_that_stands_still_is_given_up_until_it_has_caught_up(paced: Paced) -> None:
    """Once, and not again for every piece of output."""
    paced.pace.update(3 * BUDGET, 0)
    paced.pace.update(3 * BUDGET, LEAST_PROGRESS_BYTES - 1)
    paced.loop.pass_patience()
    paced.pace.update(9 * BUDGET, LEAST_PROGRESS_BYTES - 1)
    assert paced.said == ["hold", "release"]
    paced.pace.update(9 * BUDGET, 9 * BUDGET)
    paced.pace.update(9 * BUDGET + FAR, 9 * BUDGET)
    assert paced.pace.holding


def test_nobody_waits_when_the_last_reader_has_gone(paced: Paced) -> None:
    paced.pace.update(FAR, 0)
    paced.pace.update(FAR, None)
    assert paced.said == ["hold", "release"]
    paced.pace.update(50 * BUDGET, None)
    assert paced.said == ["hold", "release"]


def test_a_small_scrollback_is_not_paced() -> None:
    """Its readers' steps would be longer than the whole of it."""
    paced = Paced(budget=65536)
    paced.pace.update(BUDGET, 0)
    assert paced.said == []
