"""What is done again and again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from opencomputer.server.services.repeating import repeat

pytestmark = pytest.mark.anyio


class ThreePauses:
    """A clock in whose fourth pause whoever waits is cancelled."""

    def __init__(self, done: list[str]) -> None:
        self._done = done

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self._done.append(f"pause {seconds}")
        if sum(each.startswith("pause") for each in self._done) > 3:
            raise asyncio.CancelledError


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_failure_ends_nothing_and_a_cancellation_does(at_once: bool) -> None:
    done: list[str] = []

    async def work() -> None:
        done.append("work")
        raise RuntimeError("fails each time")

    with pytest.raises(asyncio.CancelledError):
        await repeat(work, ThreePauses(done), pause_seconds=5, complaint="it failed", at_once=at_once)
    both = ["work", "pause 5"] if at_once else ["pause 5", "work"]
    expected = both * 4 if at_once else [*(both * 3), "pause 5"]
    assert done == expected
