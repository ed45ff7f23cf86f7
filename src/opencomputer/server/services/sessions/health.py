"""Working with a brain only for as long as it answers (agent-sessions.md section 4.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from opencomputer.server.contracts.clock import Clock
from opencomputer.server.contracts.runtimes import Brain, BrainFault
from opencomputer.server.domain.errors import OpenComputerError

PROBE_EVERY_SECONDS = 10.0
PROBE_SECONDS = 2.0
MOST_MISSES = 3
GRACE_SECONDS = 5.0
_LOOK_SECONDS = 0.25

_T = TypeVar("_T")


async def while_healthy(brain: Brain, work: Coroutine[Any, Any, _T]) -> _T:
    """Do work with a brain. Raises BrainFault, and gives the work up, when the brain answers no more."""
    task = asyncio.create_task(work, name="a brain's request")
    misses = 0
    try:
        while not (await asyncio.wait({task}, timeout=PROBE_EVERY_SECONDS))[0]:
            misses = 0 if await is_busy(brain) is not None else misses + 1
            if misses >= MOST_MISSES and not task.done():
                raise BrainFault("The agent's engine does not answer any more.")
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def falls_silent(brain: Brain, clock: Clock) -> bool:
    """Whether a brain whose request was given up stops working within the grace time."""
    until = clock.monotonic() + GRACE_SECONDS
    while clock.monotonic() < until:
        busy = await is_busy(brain)
        if busy is False:
            return True
        await clock.sleep(_LOOK_SECONDS)
    return False


async def is_busy(brain: Brain) -> bool | None:
    """Whether it works on a request; None when it does not say."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            health = await brain.health()
    except (TimeoutError, OpenComputerError, OSError):
        return None
    return health.busy if health.ready else None
