"""Waiting in a test for what another thread or process does, or a server that is asked again and again."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

LONGEST_SECONDS = 120.0
DEADLINE_SECONDS = 60.0
ANSWER_SECONDS = 110.0
"""How long a client waits for an answer: nearly as long as a test may take. Busy hosts stand still."""
_OWN_STEP_SECONDS = 0.002
_ASKED_STEP_SECONDS = 0.02
"""Who is asked has work of it."""


def until(condition: Callable[[], object], what: str) -> None:
    """Block until the condition holds; fail the test when it does not within two minutes."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true in {LONGEST_SECONDS:g} s"
        time.sleep(0.05)


@overload
async def eventually(condition: Callable[[], Awaitable[T]], what: str = ...) -> T: ...
@overload
async def eventually(condition: Callable[[], T], what: str = ...) -> T: ...
async def eventually(condition: Callable[[], Any], what: str = "the condition") -> Any:
    """Ask until the answer is true, and return it; fail the test when it is not within a minute."""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                answer, step = condition(), _OWN_STEP_SECONDS
                if inspect.isawaitable(answer):
                    answer, step = await answer, _ASKED_STEP_SECONDS
                if answer:
                    return answer
                await asyncio.sleep(step)
    except TimeoutError:
        raise AssertionError(f"{what} did not come true in {DEADLINE_SECONDS:g} s") from None
