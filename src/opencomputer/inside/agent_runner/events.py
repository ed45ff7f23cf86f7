"""What the runner writes: one JSON object a line on its real standard output, and nothing else there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping

from .commands import Json

Event = Mapping[str, Json]
Emit = Callable[[Event], None]
Complain = Callable[[str], None]

MAX_ERROR_CHARACTERS = 4000
"""Enough for people, and little enough for readers that look for the end of a turn in short lines only."""

READY: Event = {"type": "ready"}
CONFIGURED: Event = {"type": "configured"}


def turn_complete(session_id: str | None, pending_prompts: int) -> Event:
    return _with_pending({"type": "turn_complete", "claude_session_id": session_id}, pending_prompts)


def interrupted(pending_prompts: int) -> Event:
    return _with_pending({"type": "interrupted"}, pending_prompts)


def error(message: str, pending_prompts: int) -> Event:
    if len(message) > MAX_ERROR_CHARACTERS:
        message = message[: MAX_ERROR_CHARACTERS - 1] + "…"
    return _with_pending({"type": "error", "message": message}, pending_prompts)


def _with_pending(event: dict[str, Json], pending_prompts: int) -> Event:
    # Only when there are some: whoever reads an event without it knows that the session is idle now.
    return {**event, "pending_prompts": pending_prompts} if pending_prompts else event


class EventWriter:
    """Writes events to a file descriptor, whole lines at a time. `on_broken` is called when nobody reads."""

    def __init__(self, descriptor: int, on_broken: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._on_broken = on_broken

    def emit(self, event: Event) -> None:
        # Escaped to ASCII, so that clients which decode each piece of a split line by itself read it right.
        line = json.dumps(event, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError:
            self._on_broken()


def claim_standard_output() -> int:
    """Keep standard output for events: everybody else who prints from now on prints to standard error."""
    descriptor = os.dup(1)
    os.dup2(2, 1)
    return descriptor


def complain(text: str) -> None:
    """Write a line to standard error, where clients look for what went wrong."""
    line = f"{text}\n".encode("utf-8", "replace")
    try:
        os.write(2, line)
    except OSError:
        pass
