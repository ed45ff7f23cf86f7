"""Waiting in a test that blocks for something that happens elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable

LONGEST_SECONDS = 120.0


def until(condition: Callable[[], object], what: str) -> None:
    """Return soon after the condition holds; fail the test when it does not within two minutes."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true in {LONGEST_SECONDS:g} s"
        time.sleep(0.05)
