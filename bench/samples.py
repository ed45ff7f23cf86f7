"""Distributions of samples, and how they compare with what is to be held."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Distribution:
    """The usual figures of a list of samples; all NaN when there is none."""

    count: int
    p50: float
    p95: float
    least: float
    most: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Distribution:
        ordered = sorted(samples)
        return cls(
            len(ordered),
            percentile(ordered, 0.50),
            percentile(ordered, 0.95),
            percentile(ordered, 0.0),
            percentile(ordered, 1.0),
        )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest sample that at least `share` of all do not exceed: a value that was really measured."""
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(frozen=True)
class Target:
    """What is to be held. `at_least` turns it round: the more the better."""

    value: float
    at_least: bool = False


@dataclass(frozen=True)
class Figure:
    """One line of a result: what was measured, in which unit, and what should be held."""

    name: str
    value: float
    unit: str
    target: Target | None = None

    @property
    def ratio(self) -> float | None:
        """How many times the target: up to 1 it is held."""
        if self.target is None:
            return None
        if self.target.at_least:
            return self.target.value / self.value if self.value else math.inf
        return self.value / self.target.value
