"""A result says what was measured, what failed, and how noisy the machine was."""

from __future__ import annotations

import json
from pathlib import Path

from bench.calibration import Calibration
from bench.report import Result, save
from bench.samples import Distribution, Figure, Target

QUIET = Calibration(Distribution(40, 10.0, 11.0, 9.5, 12.0), 0.1)
BUSY = Calibration(Distribution(40, 30.0, 90.0, 10.0, 120.0), 8.0)


def test_every_sample_and_every_failure_is_kept(tmp_path: Path) -> None:
    result = Result("tti", {"count": 3}, samples={"sequential": [1, 2]}, failures=["sequential: refused"])
    result.figures.append(Figure("p50", 90, "ms", Target(60)))
    document = json.loads(save(result, QUIET, BUSY, tmp_path).read_text())
    assert document["samples"] == {"sequential": [1, 2]}
    assert document["failures"] == ["sequential: refused"]
    assert document["figures"][0]["ratio"] == 1.5
    assert document["calibration"]["after"]["load_average"] == 8.0
    assert document["machine"]["processors"] >= 1


def test_noise_is_told_against_the_best_round_there_was() -> None:
    """A machine that is busy all the time does not look quiet to itself."""
    assert "3.16 times the best" in BUSY.describe(best=9.5)
    assert "load 8.0" in BUSY.describe(best=9.5)
