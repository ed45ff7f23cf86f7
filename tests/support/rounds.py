"""How often tests that try at random, or again and again, do so."""

from __future__ import annotations

import os

_FACTOR = float(os.environ.get("OPENCOMPUTER_TEST_ROUNDS", "1"))


def rounds(usual: int) -> int:
    """This many, or OPENCOMPUTER_TEST_ROUNDS times as many: for a night, or to look for what is rare."""
    return max(1, round(usual * _FACTOR))
