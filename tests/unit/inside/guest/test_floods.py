"""What the guest does while a fork bomb makes each of its system calls take long."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator

import pytest

from opencomputer.inside.guest import children, loop, trees
from opencomputer.inside.guest.loop import READ, Loop


class Clock:
    """Goes on only when somebody says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (children, loop, trees):
        monkeypatch.setattr(module.time, "monotonic", clock.monotonic)
    return clock


@pytest.fixture
def running() -> Generator[Loop]:
    made = Loop()
    yield made
    made.close()


def test_a_timer_that_comes_due_fires_before_the_next_callback(running: Loop, clock: Clock) -> None:
    happened: list[str] = []
    pipes = [os.pipe() for _ in range(2)]

    def slow(_events: int) -> None:
        happened.append("callback")
        clock.now += 10

    running.call_later(2.0, lambda: happened.append("timer"))
    running.call_later(15.0, running.stop)
    for reader, writer in pipes:
        os.write(writer, b"x")
        running.watch(reader, READ, slow)
    running.run()
    for descriptor in (each for pipe in pipes for each in pipe):
        os.close(descriptor)
    assert happened == ["callback", "timer", "callback"]


def waits(monkeypatch: pytest.MonkeyPatch, clock: Clock, seconds: float) -> list[int]:
    """Let there always be a dead child, and let collecting it take so long; the pids collected."""
    collected: list[int] = []

    def waitpid(_pid: int, _options: int) -> tuple[int, int]:
        clock.now += seconds
        collected.append(1000 + len(collected))
        return collected[-1], 0

    monkeypatch.setattr(os, "waitpid", waitpid)
    return collected


def run_for(running: Loop, clock: Clock, seconds: float, then: Callable[[], None]) -> None:
    running.call_later(seconds, then)
    clock.now += seconds


def test_collecting_the_dead_rests_when_it_is_slow(
    running: Loop, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected = waits(monkeypatch, clock, 5.0)
    reaper = children.Children(running)
    reaper.reap()
    reaper.reap()
    assert len(collected) == 1
    run_for(running, clock, 1.0, running.stop)
    running.run()
    assert len(collected) == 2


def test_collecting_the_dead_goes_on_at_once_when_it_is_quick(
    running: Loop, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected = waits(monkeypatch, clock, 0.015)
    children.Children(running).reap()
    assert len(collected) == 2
    running.call_soon(running.stop)
    running.run()
    assert len(collected) == 4


def test_a_moments_killing_begins_with_a_whole_group_and_the_youngest(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[tuple[str, int]] = []

    def getpgid(pid: int) -> int:
        return pid // 10

    def killpg(group: int, _signal: int) -> None:
        killed.append(("group", group))

    def kill(pid: int, _signal: int) -> None:
        clock.now += 0.04
        killed.append(("process", pid))

    monkeypatch.setattr(os, "getpgid", getpgid)
    monkeypatch.setattr(os, "killpg", killpg)
    monkeypatch.setattr(os, "kill", kill)
    trees.kill_some({410, 420, 430, 440})
    assert killed == [("group", 44), ("process", 440), ("process", 430)]
