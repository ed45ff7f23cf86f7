"""The suite in lanes: everything once, and no failure unseen."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts.run_tests import API, MACHINES, NODES, REPOSITORY, lanes, run


def python(script: str) -> list[str]:
    return [sys.executable, "-c", script]


def collected(places: Sequence[str]) -> list[Path]:
    """The files of tests that pytest takes with these arguments."""
    given = [REPOSITORY / each for each in places if not each.startswith("-")]
    left_out = [
        REPOSITORY / each.removeprefix("--ignore=") for each in places if each.startswith("--ignore=")
    ]
    found = {file for place in given for file in ([place] if place.is_file() else place.rglob("test_*.py"))}
    return sorted(file for file in found if not any(file.is_relative_to(place) for place in left_out))


def test_every_file_of_tests_is_in_one_lane() -> None:
    assert all((REPOSITORY / place).exists() for place in (*NODES, *MACHINES, *API))
    taken = [file for lane in lanes([]) for file in collected(lane.arguments)]
    assert sorted(taken) == sorted((REPOSITORY / "tests").rglob("test_*.py"))


def test_options_reach_every_lane() -> None:
    assert all(lane.arguments[-1] == "-x" for lane in lanes(["-x"]))


def test_both_lanes_are_shown_and_run_at_the_same_time(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    waiting = """
import pathlib, sys, time
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
print("met")
"""
    meeting = "import sys, pathlib; pathlib.Path(sys.argv[1]).touch(); print('came')"
    there = str(tmp_path / "there")
    code = run([("one", [*python(waiting), there]), ("two", [*python(meeting), there])], tmp_path / "out")
    shown = capfd.readouterr().out
    assert code == 0
    assert shown.index("met") < shown.index("== lane: two ==") < shown.index("came")
    assert "lane one: passed; lane two: passed" in shown


@pytest.mark.parametrize(("first", "second"), [(1, 0), (0, 2), (1, 1)])
def test_a_failure_of_either_lane_is_one_of_the_whole(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], first: int, second: int
) -> None:
    code = run([("one", python(f"exit({first})")), ("two", python(f"exit({second})"))], tmp_path)
    assert code == 1
    assert "failed (" in capfd.readouterr().out


def test_a_lane_without_tests_that_were_asked_for_has_not_failed(tmp_path: Path) -> None:
    assert run([("one", python("exit(5)")), ("two", python("exit(0)"))], tmp_path) == 0
