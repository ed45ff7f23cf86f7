"""The suite in two lanes: everything once, and no failure unseen."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts.run_tests import MACHINES, REPOSITORY, lanes, run


def python(script: str) -> list[str]:
    return [sys.executable, "-c", script]


def test_every_folder_of_tests_is_in_one_lane() -> None:
    first, second = lanes(["-x"])
    assert first.arguments == (*MACHINES, "-x")
    assert second.arguments == ("tests", *(f"--ignore={folder}" for folder in MACHINES), "-x")
    assert all((REPOSITORY / folder).is_dir() for folder in MACHINES)


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
