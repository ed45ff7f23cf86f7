"""Finding the ends of an agent's turns in its output (sandbox-wire.md section 9.3, decision D10)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

_LONGEST_EVENT = 64 * 1024
_MARKS = (b'"turn_complete"', b'"interrupted"', b'"error"')


@dataclass(frozen=True)
class TurnEnd:
    """`position` is the output offset just behind the line that ended the turn."""

    position: int
    code: int
    claude_session_id: str | None = None


class TurnTracker:
    """Feed it standard output in order; it tells where turns ended. Memory is bounded by one short line:
    a longer line cannot be one that ends a turn."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._skipping = False

    def feed(self, data: bytes, offset: int) -> list[TurnEnd]:
        """The ends in one piece of standard output that begins at `offset` of all output."""
        ends: list[TurnEnd] = []
        start = 0
        while (newline := data.find(b"\n", start)) >= 0:
            self._take(data[start:newline])
            start = newline + 1
            end = None if self._skipping else _turn_end(bytes(self._line), offset + start)
            if end is not None:
                ends.append(end)
            self._line.clear()
            self._skipping = False
        self._take(data[start:])
        return ends

    def _take(self, piece: bytes) -> None:
        if self._skipping or len(self._line) + len(piece) > _LONGEST_EVENT:
            self._skipping = True
            self._line.clear()
        else:
            self._line += piece


def _turn_end(line: bytes, position: int) -> TurnEnd | None:
    if not any(mark in line for mark in _MARKS):
        return None
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict):
        return None
    event = cast("dict[str, Any]", parsed)
    code = _exit_code(event)
    # The runner names the prompts that are still to come, so that an event without any means: idle.
    if code is None or event.get("pending_prompts"):
        return None
    session = event.get("claude_session_id")
    return TurnEnd(position, code, session if isinstance(session, str) else None)


def _exit_code(event: dict[str, Any]) -> int | None:
    match event.get("type"):
        case "turn_complete":
            return 0
        case "interrupted":
            return 130
        case "error":
            return 1
        case _:
            return None
