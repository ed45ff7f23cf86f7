"""How noisy the machine is: a fixed amount of work, timed again and again."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from bench.samples import Distribution

_ROUNDS = 40
_STEPS = 200_000


@dataclass(frozen=True)
class Calibration:
    """How long a round took, and how many processes wanted the processor at the end."""

    round_milliseconds: Distribution
    load_average: float

    def describe(self, best: float) -> str:
        """In words, against the best round that was seen before or after."""
        rounds = self.round_milliseconds
        return (
            f"{rounds.p50:.1f} ms a round, worst 5 % {rounds.p95:.1f} ms and more, "
            f"{rounds.p50 / best:.2f} times the best; load {self.load_average:.1f}"
        )


def calibrate() -> Calibration:
    samples = [_round() for _ in range(_ROUNDS)]
    return Calibration(Distribution.of(samples), os.getloadavg()[0])


def _round() -> float:
    began = time.perf_counter()
    total = 0
    for step in range(_STEPS):
        total += step * step
    assert total > 0
    return (time.perf_counter() - began) * 1000
