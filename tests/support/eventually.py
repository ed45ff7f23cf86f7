"""Waiting in a test for something that another thread or process does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

DEADLINE_SECONDS = 10.0


async def eventually(condition: Callable[[], object], what: str = "the condition") -> None:
    """Return as soon as the condition holds; fail the test when it does not within ten seconds."""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not condition():  # noqa: ASYNC110 - what is awaited happens outside this event loop
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise AssertionError(f"{what} did not come true in {DEADLINE_SECONDS:g} s") from None
