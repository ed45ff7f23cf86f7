"""Calling the user's callbacks, which may be plain or async functions."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass

BytesCallback = Callable[[bytes], object]
ExitCallback = Callable[[int], object]
SignalCallback = Callable[[], object]

_log = logging.getLogger("opencomputer")


@dataclass(frozen=True)
class StreamCallbacks:
    """What to call for each kind of news from an exec session."""

    on_stdout: BytesCallback | None = None
    on_stderr: BytesCallback | None = None
    on_exit: ExitCallback | None = None
    on_scrollback_end: SignalCallback | None = None


async def notify(callback: Callable[..., object] | None, *arguments: object) -> None:
    """Call it, and await what it returns if that can be awaited.

    Its exceptions are logged and go no further: a fault in a callback must not end the stream it listens to.
    """
    if callback is None:
        return
    try:
        outcome = callback(*arguments)
        if inspect.isawaitable(outcome):
            await outcome
    except Exception:
        _log.exception("a callback raised an exception")
