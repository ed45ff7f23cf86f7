"""Doing something again and again, as long as the node runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from opencomputer.server.contracts.clock import Clock

_log = structlog.get_logger(__name__)


async def repeat(
    work: Callable[[], Awaitable[object]],
    clock: Clock,
    *,
    pause_seconds: float,
    complaint: str,
    at_once: bool = False,
) -> None:
    """Do `work` until cancelled, with a pause after each time and, unless `at_once`, before the first.

    A failure is logged with `complaint` and ends nothing.
    """
    if not at_once:
        await clock.sleep(pause_seconds)
    while True:
        try:
            await work()
        except Exception:
            _log.exception(complaint)
        await clock.sleep(pause_seconds)
